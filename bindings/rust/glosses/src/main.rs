//! Predicts the part of speech of a WordNet gloss, once with static batches and once with libsab's,
//! and prints seconds, padding and accuracy of both. Both see the same glosses in nearly the same
//! number of steps.
//!
//! In the documentation, with arguments: /usr/share/wordnet 50
//!
//! Usage: glosses [FOLDER [NUMBER]]    FOLDER holds data.noun, data.verb, data.adj and data.adv;
//! /usr/share/wordnet by default. NUMBER: of glosses of each; all by default

use std::collections::HashMap;
use std::env;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::Instant;

use candle_core::{DType, Device, Tensor, D};
use candle_nn::{
    embedding, linear, loss, AdamW, Embedding, Linear, Module, Optimizer, ParamsAdamW, VarBuilder,
    VarMap,
};
use libsab::{BatchRef, BucketRule, Plan, PlanOptions, Sampler, SamplerOptions, Sizes};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Tensors come and go at each step; the system's allocator would give their pages back each time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PARTS: [&str; 4] = ["noun", "verb", "adj", "adv"];
const VOCABULARY: usize = 8192;
const PADDING: u32 = 0;
const RARE_WORD: u32 = 1;
const WIDTH: usize = 64;
const STATIC_BATCH_SIZE: u64 = 64;

/// A data set: the words of each gloss as numbers, and its part of speech as an index into PARTS.
#[derive(Default)]
struct Glosses {
    words: Vec<Vec<u32>>,
    parts: Vec<u32>,
}

/// Training glosses, and every tenth gloss for the test; at most so many of each part of speech.
fn read_glosses(folder: &Path, most: usize) -> Result<(Glosses, Glosses)> {
    let mut texts = Vec::new();
    for (part, name) in PARTS.iter().enumerate() {
        let path = folder.join(format!("data.{name}"));
        let text =
            fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let glosses = text.lines().filter_map(|line| line.split_once(" | ")).take(most);
        texts.extend(glosses.map(|(_, gloss)| (part as u32, gloss.to_lowercase())));
    }
    let vocabulary = vocabulary(&texts);
    let (mut training, mut test) = (Glosses::default(), Glosses::default());
    for (index, (part, text)) in texts.iter().enumerate() {
        let set = if index % 10 == 0 { &mut test } else { &mut training };
        set.words.push(
            words(text).map(|word| vocabulary.get(word).copied().unwrap_or(RARE_WORD)).collect(),
        );
        set.parts.push(*part);
    }
    Ok((training, test))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty())
}

/// Numbers of the most frequent words, from 2 up.
fn vocabulary(texts: &[(u32, String)]) -> HashMap<&str, u32> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    texts
        .iter()
        .flat_map(|(_, text)| words(text))
        .for_each(|word| *counts.entry(word).or_default() += 1);
    let mut by_count: Vec<_> = counts.into_iter().collect();
    by_count.sort_unstable_by_key(|&(word, count)| (std::cmp::Reverse(count), word));
    by_count
        .into_iter()
        .take(VOCABULARY - 2)
        .zip(2..)
        .map(|((word, _), number)| (word, number))
        .collect()
}

// [tensors]
/// A batch as tensors: word numbers, count x length, and parts of speech.
fn tensors(glosses: &Glosses, batch: &BatchRef<'_>, device: &Device) -> Result<(Tensor, Tensor)> {
    let (count, length) = (batch.indices.len(), batch.padded_length[0] as usize);
    let mut words = vec![PADDING; count * length];
    for (row, &index) in words.chunks_mut(length).zip(batch.indices) {
        let gloss = &glosses.words[index as usize];
        row[..gloss.len()].copy_from_slice(gloss);
    }
    let parts: Vec<u32> =
        batch.indices.iter().map(|&index| glosses.parts[index as usize]).collect();
    Ok((Tensor::from_vec(words, (count, length), device)?, Tensor::from_vec(parts, count, device)?))
}
// [end]

/// Each word is embedded and passed through one layer; the mean over the words of a gloss says its
/// part of speech.
struct Model {
    embedding: Embedding,
    hidden: Linear,
    output: Linear,
}

impl Model {
    fn new(variables: &VarBuilder) -> Result<Self> {
        Ok(Model {
            embedding: embedding(VOCABULARY, WIDTH, variables.pp("embedding"))?,
            hidden: linear(WIDTH, WIDTH, variables.pp("hidden"))?,
            output: linear(WIDTH, PARTS.len(), variables.pp("output"))?,
        })
    }

    fn forward(&self, words: &Tensor) -> Result<Tensor> {
        let mask = words.ne(PADDING)?.to_dtype(DType::F32)?.unsqueeze(D::Minus1)?;
        let hidden = self.hidden.forward(&self.embedding.forward(words)?)?.relu()?;
        let sum = hidden.broadcast_mul(&mask)?.sum(1)?;
        Ok(self.output.forward(&sum.broadcast_div(&mask.sum(1)?)?)?)
    }
}

// [train]
/// One epoch; seconds of it.
fn train(
    model: &Model,
    variables: &VarMap,
    glosses: &Glosses,
    plan: &Plan,
    device: &Device,
) -> Result<f64> {
    let mut optimizer =
        AdamW::new(variables.all_vars(), ParamsAdamW { lr: 2e-3, ..ParamsAdamW::default() })?;
    let mut sampler = Sampler::bucket(plan, &SamplerOptions::new().seed(1))?;
    let start = Instant::now();
    while let Some(batch) = sampler.next_ref() {
        let batch = batch?;
        let (words, parts) = tensors(glosses, &batch, device)?;
        let loss = loss::cross_entropy(&model.forward(&words)?, &parts)?;
        optimizer.backward_step(&(loss * batch.sample_weight)?)?; // each sample counts the same
    }
    Ok(start.elapsed().as_secs_f64())
}
// [end]

/// Share of glosses whose part of speech is found.
fn accuracy(model: &Model, glosses: &Glosses, device: &Device) -> Result<f64> {
    let plan = Plan::new(&sizes(glosses)?, &PlanOptions::new().budget(16_384.0))?;
    let mut sampler = Sampler::sequential(&plan, &SamplerOptions::new())?;
    let mut right = 0.0;
    while let Some(batch) = sampler.next_ref() {
        let (words, parts) = tensors(glosses, &batch?, device)?;
        let found = model.forward(&words)?.argmax(D::Minus1)?;
        right += f64::from(found.eq(&parts)?.to_dtype(DType::F32)?.sum_all()?.to_scalar::<f32>()?);
    }
    Ok(right / glosses.parts.len() as f64)
}

fn sizes(glosses: &Glosses) -> Result<Sizes<'static>> {
    Ok(Sizes::from_fn(glosses.words.len(), |index| glosses.words[index].len() as f64)?)
}

fn main() -> Result<()> {
    let folder = env::args().nth(1).unwrap_or_else(|| "/usr/share/wordnet".into());
    let most = env::args().nth(2).map_or(Ok(usize::MAX), |number| number.parse())?;
    let (training, test) = read_glosses(Path::new(&folder), most)?;
    let sizes = sizes(&training)?;
    let total: usize = training.words.iter().map(Vec::len).sum();
    let longest = training.words.iter().map(Vec::len).max().unwrap_or(0);
    println!(
        "{} glosses of {total} words to train, {} to test",
        training.parts.len(),
        test.parts.len()
    );

    // Static batches are one bucket of everything. The budget of the other plan makes batches of as
    // many words on average.
    let everything = BucketRule::Boundaries(vec![0.0, longest as f64 + 1.0]);
    let mean_words = total as f64 / training.parts.len() as f64;
    let plans = [
        ("static", PlanOptions::new().bucket_rule(everything).batch_size(STATIC_BATCH_SIZE)),
        (
            "libsab",
            PlanOptions::new()
                .budget((STATIC_BATCH_SIZE as f64 * mean_words).max(longest as f64).ceil()),
        ),
    ];
    println!("{:8} {:>8} {:>8} {:>9} {:>9}", "batches", "steps", "seconds", "padding", "accuracy");
    for (name, options) in plans {
        let plan = Plan::new(&sizes, &options)?;
        let report = plan.report(&SamplerOptions::new().seed(1))?;
        let device = Device::Cpu;
        let variables = VarMap::new();
        let model = Model::new(&VarBuilder::from_varmap(&variables, DType::F32, &device))?;
        let seconds = train(&model, &variables, &training, &plan, &device)?;
        let accuracy = accuracy(&model, &test, &device)?;
        println!(
            "{name:8} {:8} {seconds:8.1} {:8.1}% {:8.1}%",
            report.steps,
            100.0 * report.padding,
            100.0 * accuracy
        );
    }
    Ok(())
}
