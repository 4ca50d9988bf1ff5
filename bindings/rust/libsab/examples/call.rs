//! What a batch costs in Rust beyond what it costs in C: batches of one sample in the plainest
//! order, borrowed (`rust`) and owned (`rust-batches`). Prints "NAME NANOSECONDS".
//! tests/bench/calls.sh of the repository runs it beside the same in other languages.

use std::time::Instant;

use libsab::{Error, Plan, PlanOptions, Sampler, SamplerOptions, Sizes};

const CALLS: usize = 2_000; // in a pass
const PASSES: usize = 500;

fn nanoseconds(mut pass: impl FnMut() -> Result<i64, Error>) -> Result<f64, Error> {
    let mut best = f64::INFINITY;
    for _ in 0..PASSES {
        let began = Instant::now();
        assert_eq!(pass()?, (CALLS as i64) * (CALLS as i64 - 1) / 2);
        best = best.min(1e9 * began.elapsed().as_secs_f64() / CALLS as f64);
    }
    Ok(best)
}

fn main() -> Result<(), Error> {
    let ones = vec![1u8; CALLS];
    let plan = Plan::new(&Sizes::copied(&ones)?, &PlanOptions::new().budget(1.0))?;
    let mut sampler = Sampler::sequential(&plan, &SamplerOptions::new())?;
    let borrowed = nanoseconds(|| {
        let mut sum = 0;
        sampler.set_epoch(0)?;
        while let Some(batch) = sampler.next_ref() {
            sum += batch?.indices[0];
        }
        Ok(sum)
    })?;
    println!("rust {borrowed:.1}");
    let owned = nanoseconds(|| {
        sampler.set_epoch(0)?;
        sampler.iter_mut().try_fold(0, |sum, batch| Ok(sum + batch?.indices[0]))
    })?;
    println!("rust-batches {owned:.1}");
    Ok(())
}
