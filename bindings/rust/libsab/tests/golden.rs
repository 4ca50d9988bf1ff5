//! The golden vectors that every binding reads: tests/golden of the repository, whose README.md
//! describes the format.

use std::fs;
use std::path::Path;

use libsab::{
    BalancedOptions, BalancedSampler, Batch, BatchRef, BionemoOptions, BionemoSampler,
    BionemoSizeAwareSampler, BucketRule, BucketSampler, Budget, Cost, Error, LastStep, Oversize,
    PackMethod, PackedOptions, PackedSampler, PartitionMethod, Plan, PlanOptions, SamplerOptions,
    SequentialSampler, ShardedSampler, Sizes, Step, Tail,
};

/// What all samplers do, by methods of their own.
trait Walk {
    fn next_ref(&mut self) -> Option<Result<BatchRef<'_>, Error>>;
    fn step(&mut self) -> Result<Step, Error>;
    fn set_epoch(&mut self, epoch: u64) -> Result<(), Error>;
}

macro_rules! walk {
    ($($sampler:ty),*) => {$(
        impl Walk for $sampler {
            fn next_ref(&mut self) -> Option<Result<BatchRef<'_>, Error>> {
                self.next_ref()
            }
            fn step(&mut self) -> Result<Step, Error> {
                self.step()
            }
            fn set_epoch(&mut self, epoch: u64) -> Result<(), Error> {
                self.set_epoch(epoch)
            }
        }
    )*};
}

walk!(
    BucketSampler,
    SequentialSampler,
    BionemoSizeAwareSampler<'static>,
    PackedSampler,
    BalancedSampler,
    ShardedSampler,
    BionemoSampler<'static>
);

/// The lines of a case.
#[derive(Default)]
struct Case<'t> {
    name: &'t str,
    sizes: Vec<u32>,
    plan: Vec<Vec<&'t str>>,
    pack: Vec<Vec<&'t str>>,
    balanced: Vec<Vec<&'t str>>,
    sampler: Vec<&'t str>,
    options: Vec<Vec<&'t str>>,
}

fn number<T: std::str::FromStr>(word: &str) -> T {
    word.parse().unwrap_or_else(|_| panic!("not a number: {word}"))
}

impl Case<'_> {
    fn plan_options(&self) -> PlanOptions<'static> {
        let quadratic = self.plan.iter().any(|words| words[..] == ["cost", "quadratic"]);
        self.plan.iter().fold(PlanOptions::new(), |options, words| match words[..] {
            ["budget", value] => {
                let cost = if quadratic { Cost::quadratic() } else { Cost::padded() };
                options.budget(Budget::new(number(value)).cost(cost))
            }
            ["batch_size", value] => options.batch_size(number(value)),
            ["buckets", "auto"] => options.bucket_rule(BucketRule::Auto),
            ["buckets", "optimal", count] => {
                options.bucket_rule(BucketRule::Optimal(number(count)))
            }
            ["buckets", "equal", batches] => {
                options.bucket_rule(BucketRule::Equal(number(batches)))
            }
            ["boundaries", ref edges @ ..] => options
                .bucket_rule(BucketRule::Boundaries(edges.iter().copied().map(number).collect())),
            ["cost", "padded" | "quadratic"] => options,
            ["tail", "keep"] => options.tail(Tail::Keep),
            ["tail", "merge"] => options.tail(Tail::Merge),
            ["tail", "drop"] => options.tail(Tail::Drop),
            ["tail", "wrap"] => options.tail(Tail::Wrap),
            ["oversize", "skip"] => options.oversize(Oversize::Skip),
            ["oversize", "single"] => options.oversize(Oversize::Single),
            ["length_multiple", value] => options.length_multiple(number(value)),
            ["batch_size_multiple", value] => options.batch_size_multiple(number(value)),
            ["max_batch_size", value] => options.max_batch_size(number(value)),
            ["max_shapes", value] => options.max_shapes(number(value)),
            _ => panic!("{}: unknown plan {words:?}", self.name),
        })
    }

    fn pack_options(&self) -> PackedOptions<'static> {
        let value = |name| self.pack.iter().find(|words| words[0] == name).map(|words| words[1]);
        let window = value("window").map_or(256, number);
        self.pack.iter().fold(
            PackedOptions::new().capacity(number(value("capacity").unwrap())),
            |options, words| match words[..] {
                ["capacity" | "window", _] => options,
                ["method", "best_fit"] => options.method(PackMethod::BestFit),
                ["method", "histogram"] => options.method(PackMethod::Histogram),
                ["method", "first_fit"] => options.method(PackMethod::FirstFit { window }),
                ["max_sequences", most] => options.max_sequences(number(most)),
                ["split", "1"] => options.split(true),
                ["oversize", "skip"] => options.skip_oversize(),
                _ => panic!("{}: unknown packing {words:?}", self.name),
            },
        )
    }

    fn balanced_options(&self) -> BalancedOptions<'static> {
        let quadratic = self.balanced.iter().any(|words| words[..] == ["cost", "quadratic"]);
        self.balanced.iter().fold(BalancedOptions::new(), |options, words| match words[..] {
            ["samples", value] => options.samples(number(value)),
            ["budget", value] => {
                let cost = if quadratic { Cost::quadratic() } else { Cost::padded() };
                options.budget(Budget::new(number(value)).cost(cost))
            }
            ["cost", "padded" | "quadratic"] | ["balance", "padded"] => options,
            ["balance", "quadratic"] => options.balance(Cost::quadratic()),
            ["fill", value] => options.fill(number(value)),
            ["method", "karmarkar_karp"] => options.method(PartitionMethod::KarmarkarKarp),
            ["method", "longest_first"] => options.method(PartitionMethod::LongestFirst),
            ["oversize", "skip"] => options.skip_oversize(),
            _ => panic!("{}: unknown balancing {words:?}", self.name),
        })
    }

    fn sampler_options(&self) -> SamplerOptions {
        self.options.iter().fold(SamplerOptions::new(), |options, words| match words[..] {
            ["seed", value] => options.seed(number(value)),
            ["rank", value] => options.rank(number(value)),
            ["world_size", value] => options.world_size(number(value)),
            ["micro_batches", value] => options.micro_batches(number(value)),
            ["costliest_first", value] => options.costliest_first(number(value)),
            ["last_step", "split"] => options.last_step(LastStep::Split),
            ["last_step", "drop"] => options.last_step(LastStep::Drop),
            ["last_step", "wrap"] => options.last_step(LastStep::Wrap),
            _ => panic!("{}: unknown option {words:?}", self.name),
        })
    }

    /// The seed alone, which is all that a torch-order sampler takes.
    fn seed(&self) -> u64 {
        self.options.iter().find(|words| words[0] == "seed").map_or(0, |words| number(words[1]))
    }

    fn make_sampler(&self) -> Result<Box<dyn Walk>, Error> {
        let sizes = Sizes::copied(&self.sizes)?;
        let options = self.sampler_options();
        let plan = || Plan::new(&sizes, &self.plan_options());
        Ok(match self.sampler[..] {
            ["bucket"] => Box::new(BucketSampler::new(&plan()?, &options)?),
            ["sequential"] => Box::new(SequentialSampler::new(&plan()?, &options)?),
            ["bionemo_size_aware", most] => {
                Box::new(BionemoSizeAwareSampler::new(None, &sizes, number(most), &options)?)
            }
            ["packed"] => Box::new(PackedSampler::new(&sizes, &self.pack_options(), &options)?),
            ["balanced"] => {
                Box::new(BalancedSampler::new(&sizes, &self.balanced_options(), &options)?)
            }
            ["sharded"] => Box::new(ShardedSampler::new(
                &sizes,
                &self.plan_options(),
                &options,
                |mine, all| {
                    all.chunks_exact_mut(mine.len()).for_each(|rank| rank.copy_from_slice(mine));
                    Ok(())
                },
            )?),
            ["bionemo"] => {
                Box::new(BionemoSampler::new(&plan()?, &BionemoOptions::new().seed(self.seed()))?)
            }
            _ => panic!("{}: unknown sampler {:?}", self.name, self.sampler),
        })
    }
}

/// FNV-1a over 64-bit words.
struct Digest(u64);

impl Digest {
    fn word(&mut self, word: u64) {
        for byte in word.to_le_bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(1_099_511_628_211);
        }
    }
}

fn sizes_by_rule(count: usize, modulus: u64) -> Vec<u32> {
    let mut x = 1u64;
    let rule = |_| {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (1 + (x >> 33) % modulus) as u32
    };
    (0..count).map(rule).collect()
}

/// Checks a file; the number of its cases.
fn check(text: &str) -> usize {
    let mut cases = 0;
    let mut case = Case::default();
    let mut sampler: Option<Box<dyn Walk>> = None;
    let mut last: Option<Batch> = None;
    let mut expects_end = false;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some((&key, values)) = words.split_first() else { continue };
        if expects_end && !["batch", "cu_seqlens", "starts", "step"].contains(&key) {
            assert!(
                sampler.as_mut().unwrap().next_ref().is_none(),
                "{}: more batches than recorded",
                case.name
            );
            expects_end = false;
        }
        match (key, values) {
            ("case", [name]) => case = Case { name, ..Case::default() },
            ("sizes", sizes) => case.sizes = sizes.iter().copied().map(number).collect(),
            ("sizes_rule", [count, modulus]) => {
                case.sizes = sizes_by_rule(number(count), number(modulus));
            }
            ("plan", option) => case.plan.push(option.to_vec()),
            ("balanced", option) => case.balanced.push(option.to_vec()),
            ("pack", option) => case.pack.push(option.to_vec()),
            ("sampler", kind) => case.sampler = kind.to_vec(),
            ("option", option) => case.options.push(option.to_vec()),
            ("epoch", [epoch]) => {
                let sampler = sampler.get_or_insert_with(|| case.make_sampler().unwrap());
                sampler.set_epoch(number(epoch)).unwrap();
            }
            ("batch", indices) => {
                let expected: Vec<i64> = indices.iter().copied().map(number).collect();
                let batch = sampler
                    .as_mut()
                    .unwrap()
                    .next_ref()
                    .unwrap_or_else(|| panic!("{}: too few batches", case.name));
                let batch = batch.unwrap().into_owned();
                assert_eq!(batch.indices, expected, "{}", case.name);
                last = Some(batch);
                expects_end = true;
            }
            ("cu_seqlens", lengths) => {
                let expected: Vec<i32> = lengths.iter().copied().map(number).collect();
                assert_eq!(last.as_ref().unwrap().cu_seqlens, Some(expected), "{}", case.name);
            }
            ("starts", starts) => {
                let expected: Vec<i64> = starts.iter().copied().map(number).collect();
                assert_eq!(last.as_ref().unwrap().starts, Some(expected), "{}", case.name);
            }
            ("step", values) => {
                let batch = last.as_ref().unwrap();
                let step = sampler.as_mut().unwrap().step().unwrap();
                let total = step.total.unwrap_or(-1.0);
                let shown = [batch.step, batch.micro_batch, step.micro_batches, step.samples]
                    .map(|each| each as f64);
                let expected: Vec<f64> = values.iter().copied().map(number).collect();
                assert_eq!([&shown[..], &[total]].concat(), expected, "{}", case.name);
            }
            ("digest", [steps, hash]) => {
                let mut digest = Digest(14_695_981_039_346_656_037);
                let mut count = 0u64;
                while let Some(batch) = sampler.as_mut().unwrap().next_ref() {
                    let Batch { indices, .. } = batch.unwrap();
                    digest.word(indices.len() as u64);
                    indices.iter().for_each(|&index| digest.word(index as u64));
                    count += 1;
                }
                assert_eq!(
                    (count, format!("{:016x}", digest.0)),
                    (number(steps), (*hash).to_string()),
                    "{}",
                    case.name
                );
            }
            ("end", []) => {
                sampler = None;
                cases += 1;
            }
            _ => panic!("{}: unknown line {line}", case.name),
        }
    }
    cases
}

#[test]
fn golden_vectors_of_every_order_agree() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/golden");
    let files: Vec<_> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    assert!(!files.is_empty());
    for file in files {
        assert!(check(&fs::read_to_string(&file).unwrap()) > 0, "{}", file.display());
    }
}

#[test]
#[should_panic(expected = "swapped")]
fn a_wrong_vector_is_noticed() {
    check(
        "case swapped\nsizes 3 1\nplan batch_size 2\nsampler sequential\nepoch 0\nbatch 0 1\nend\n",
    );
}
