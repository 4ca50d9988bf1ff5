//! Calls of `balance.h` on partitions.

use super::*;
use crate::balance::PartitionOptions;

/// The numbers of all items, a kind after the other.
fn table<'t>(
    name: &str,
    kinds: impl Iterator<Item = &'t [f64]>,
    items: usize,
) -> Result<Vec<f64>, Error> {
    let mut table = Vec::new();
    for numbers in kinds {
        if numbers.len() != items {
            let count = numbers.len();
            return Err(Error::refused(
                format!("{name}.len()"),
                count,
                format!("must be that of costs, {items}"),
            ));
        }
        table.extend_from_slice(numbers);
    }
    Ok(table)
}

pub(crate) fn partition(
    costs: &[&[f64]],
    parts: u64,
    options: &PartitionOptions<'_>,
) -> Result<Vec<u32>, Error> {
    if costs.is_empty() {
        return Err(Error::argument_error("costs.len() = 0: must be at least 1".to_string()));
    }
    let mut raw = *options.raw;
    let count = costs.first().map_or(0, |first| first.len());
    let all_costs = table("costs", costs.iter().copied(), count)?;
    let weights = table("weights", options.weights.iter().map(|each| each.0), count)?;
    let capacities: Vec<f64> = options.weights.iter().map(|each| each.1).collect();
    raw.cost_count = costs.len();
    if !capacities.is_empty() {
        raw.weights = weights.as_ptr(); // not NULL, whatever its length
        raw.capacities = capacities.as_ptr();
        raw.capacity_count = capacities.len();
    }
    let mut progress = options.progress.get().map(Guarded::new);
    (raw.progress, raw.progress_ctx) = progress_parts(&mut progress);
    let mut part_of = vec![0; count];
    // SAFETY: costs, weights and parts are as many, and outlive the call, as the closure does.
    let status = unsafe {
        sys::sab_items_partition(all_costs.as_ptr(), count, parts, &raw, part_of.as_mut_ptr())
    };
    check_with(status, [failure_of(progress)])?;
    Ok(part_of)
}
