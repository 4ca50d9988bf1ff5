//! The first example in Rust.

// [first]
use libsab::{Plan, PlanOptions, Sampler, SamplerOptions, Sizes};

fn main() -> Result<(), libsab::Error> {
    let tokens: Vec<u32> = (0..10_000).map(|i| 1 + i * 7919 % 200).collect(); // the size of each sample
    let plan = Plan::new(&Sizes::borrowed(&tokens)?, &PlanOptions::new().budget(4096.0))?;
    let report = plan.report(&SamplerOptions::new())?;
    println!("{:.1} % padding in {} batches", 100.0 * report.padding, report.batches);

    let mut sampler = Sampler::bucket(&plan, &SamplerOptions::new().seed(7))?;
    let mut seen = 0;
    for batch in &mut sampler {
        let batch = batch?;
        assert!(batch.padded_total() <= 4096.0);
        seen += batch.indices.len();
    }
    assert_eq!(seen, tokens.len());
    Ok(())
}
// [end]
