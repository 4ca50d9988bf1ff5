//! Errors of the library in the words of Rust: `budget = -1` for `options.budgets[0].limit = -1`,
//! `Tail::Drop` for `SAB_TAIL_DROP`.

use crate::names::{CHOICES, COUNTED, OPTIONS};

/// Types that have another name here than in C.
const TYPES: &[(&str, &str)] = &[("MemoryModelKind", "ModelKind"), ("PadRule", "Padding")];

/// What the functions of C begin with that are methods here, and of which type.
const OBJECTS: &[(&str, &str)] = &[
    ("sampler", "Sampler"),
    ("plan", "Plan"),
    ("stream", "Stream"),
    ("histogram", "Histogram"),
    ("packing", "Packing"),
    ("mixture", "Mixture"),
];

/// Arguments and fields of the options that have another name here.
const FIELDS: &[(&str, &str)] = &[("limit", "budget"), ("patience", "tolerate + 1")];

/// What methods that take one number call the first of an array.
const FIRST: &[(&str, &str)] = &[
    ("budgets[0]", "budget"),
    ("capacities[0]", "capacity"),
    ("length_multiples[0]", "length_multiple"),
    ("max_shapes[0]", "max_shapes"),
];

fn find<'t>(table: &'t [(&str, &str)], name: &str) -> Option<&'t str> {
    table.iter().find(|(each, _)| *each == name).map(|(_, own)| *own)
}

/// The first part of a text: a name with its fields and indices, a text in quotes, or a character.
fn first_token(text: &str) -> &str {
    let is_in_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let begins_name = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    let bytes = text.as_bytes();
    let first = text.chars().next().map_or(0, char::len_utf8);
    if bytes.first() == Some(&b'"') {
        return &text[..text[1..].find('"').map_or(text.len(), |end| end + 2)];
    }
    if !bytes.first().copied().is_some_and(begins_name) {
        return &text[..first];
    }
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let next = bytes.get(at + 1).copied();
        if is_in_name(byte) || (byte == b'.' && next.is_some_and(begins_name)) {
            at += 1;
        } else if let Some(index) = index_at(&text[at..]) {
            at += index.len() + 2;
        } else {
            break;
        }
    }
    &text[..at]
}

/// The number of `[number]` at the beginning of a text.
fn index_at(text: &str) -> Option<&str> {
    let (index, _) = text.strip_prefix('[')?.split_once(']')?;
    (!index.is_empty() && index.bytes().all(|byte| byte.is_ascii_digit())).then_some(index)
}

/// A text of the library with Rust's names in it.
pub(crate) fn translated(text: &str) -> String {
    let mut own = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let token = first_token(rest);
        rest = &rest[token.len()..];
        if let Some(choice) = find(CHOICES, token) {
            own += &choice_of(choice);
            rest = without_number(rest);
        } else if token == "NULL" {
            own += "None";
        } else if let Some(function) = token.strip_prefix("sab_") {
            own += &function_of(function);
        } else if token.starts_with('"') {
            own += token;
        } else if token.contains('[') || is_of_options(token) {
            own += &own_name(token);
        } else {
            own += token;
        }
    }
    own
}

fn choice_of(choice: &str) -> String {
    match choice.split_once("::") {
        Some((kind, word)) => format!("{}::{word}", find(TYPES, kind).unwrap_or(kind)),
        None => choice.to_owned(),
    }
}

/// What follows the ` (2)` behind a constant.
fn without_number(text: &str) -> &str {
    match text.strip_prefix(" (").and_then(|text| text.split_once(')')) {
        Some((number, rest)) if number.parse::<i64>().is_ok() => rest,
        _ => text,
    }
}

fn is_of_options(name: &str) -> bool {
    name.split_once('.').is_some_and(|(first, _)| OPTIONS.contains(&first))
}

/// The name of an argument, or of an option without that of the options.
pub(crate) fn own_name(name: &str) -> String {
    let name = match name.split_once('.') {
        Some((first, field)) if OPTIONS.contains(&first) => field,
        _ => name,
    };
    let name = find(FIELDS, name).unwrap_or(name);
    if let Some(array) = find(COUNTED, name) {
        return format!("{array}.len()");
    }
    let name = name.strip_suffix("].limit").map_or(name.to_owned(), |name| format!("{name}]"));
    for (first, own) in FIRST {
        if let Some(field) = name.strip_prefix(first) {
            return format!("{own}{field}");
        }
    }
    name
}

/// `sab_bucket_sampler_new` is `Sampler::bucket`, `sab_sampler_at` is `Sampler::at`.
fn function_of(name: &str) -> String {
    if let Some(kind) = name.strip_suffix("_sampler_new") {
        return format!("Sampler::{kind}");
    }
    if name == "next_batch" {
        return "Sampler::next_batch".to_owned();
    }
    match name.split_once('_') {
        Some((object, verb)) if find(OBJECTS, object).is_some() => {
            let verb = verb.strip_suffix("_new").unwrap_or(verb);
            format!("{}::{verb}", find(OBJECTS, object).unwrap_or_default())
        }
        Some((module, function)) => format!("{module}::{function}"),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_arguments() {
        for (name, own) in [
            ("options.budgets[0].limit", "budget"),
            ("options.budgets[1].limit", "budgets[1]"),
            ("balanced.budgets[0].cost", "budget.cost"),
            ("options.budget_count", "budgets.len()"),
            ("pack.capacities[0]", "capacity"),
            ("options.limit", "budget"),
            ("limit", "budget"),
            ("sizes[3]", "sizes[3]"),
            ("features[1][0]", "features[1][0]"),
            ("sizes.count", "sizes.count"),
        ] {
            assert_eq!(own_name(name), own);
        }
    }

    #[test]
    fn names_in_rules() {
        for (rule, own) in [
            ("goes with SAB_BUCKETS_OPTIMAL only", "goes with BucketRule::Optimal only"),
            (
                "must be one of SAB_TAIL_KEEP (0) to SAB_TAIL_WRAP (2)",
                "must be one of Tail::Keep to Tail::Wrap",
            ),
            ("Set options.oversize to SAB_OVERSIZE_SKIP (1).", "Set oversize to Oversize::Skip."),
            ("fit it as SAB_MODEL_BATCH", "fit it as ModelKind::Batch"),
            ("a sab_bucket_sampler_new, sab_sampler_at()", "a Sampler::bucket, Sampler::at()"),
            ("has the field \"SAB_TAIL_KEEP\"; é", "has the field \"SAB_TAIL_KEEP\"; é"),
            ("an \"open quote", "an \"open quote"),
            ("in [0, 1)", "in [0, 1)"),
        ] {
            assert_eq!(translated(rule), own);
        }
    }
}
