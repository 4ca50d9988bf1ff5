//! The golden vectors that every binding reads: tests/golden of the repository, whose README.md
//! describes the format.

use std::fs;
use std::path::Path;

use libsab::{
    BalancedOptions, Batch, BionemoOptions, BucketRule, Budget, Cost, CostTerm, Error, LastStep,
    Mixture, MixtureOptions, Oversize, PackMethod, PackedOptions, Plan, PlanOptions, Sampler,
    SamplerOptions, ShapeRule, Sizes, Tail,
};

/// The lines of a case.
#[derive(Default)]
struct Case<'t> {
    name: &'t str,
    /// Of each column.
    sizes: Vec<Vec<u32>>,
    mixture: Vec<Vec<&'t str>>,
    plan: Vec<Vec<&'t str>>,
    pack: Vec<Vec<&'t str>>,
    balanced: Vec<Vec<&'t str>>,
    sampler: Vec<&'t str>,
    options: Vec<Vec<&'t str>>,
}

fn number<T: std::str::FromStr>(word: &str) -> T {
    word.parse().unwrap_or_else(|_| panic!("not a number: {word}"))
}

/// The budgets among the options: with weights, with the cost that another line names, or without a
/// cost.
fn budgets(lines: &[Vec<&str>]) -> Vec<Budget<'static>> {
    let names_cost = |name| lines.iter().any(|words| words[..] == ["cost", name]);
    let budget = |words: &Vec<&str>| match words[..] {
        ["budget", limit] => {
            let budget = Budget::new(number(limit));
            Some(if names_cost("quadratic") {
                budget.cost(Cost::quadratic())
            } else if names_cost("product") {
                budget.cost(Cost::terms([CostTerm::of_columns(1.0, 1, [1, 1])]))
            } else {
                budget
            })
        }
        ["budget", limit, ref weights @ ..] => {
            Some(Budget::new(number(limit)).cost(Cost::padded(&numbers(weights))))
        }
        _ => None,
    };
    lines.iter().filter_map(budget).collect()
}

fn numbers<T: std::str::FromStr>(words: &[&str]) -> Vec<T> {
    words.iter().copied().map(number).collect()
}

impl Case<'_> {
    /// Corners of buckets, or edges of those of one column.
    fn boundaries(&self, words: &[&str]) -> BucketRule {
        match self.sizes.len() {
            1 => BucketRule::Boundaries(numbers(words)),
            columns => BucketRule::Corners(words.chunks(columns).map(numbers).collect()),
        }
    }

    fn plan_options(&self) -> PlanOptions<'static> {
        let options = PlanOptions::new().budgets(budgets(&self.plan));
        self.plan.iter().fold(options, |options, words| match words[..] {
            ["budget", ..] | ["cost", "padded" | "quadratic" | "product"] => options,
            ["batch_size", value] => options.batch_size(number(value)),
            ["buckets", "auto"] => options.bucket_rule(BucketRule::Auto),
            ["buckets", "optimal", count] => {
                options.bucket_rule(BucketRule::Optimal(number(count)))
            }
            ["boundaries", ref edges @ ..] => options.bucket_rule(self.boundaries(edges)),
            ["length_multiples", ref multiples @ ..] => {
                options.length_multiples(numbers(multiples))
            }
            ["separate_by", ref ids @ ..] => options.separate_by(numbers(ids)),
            ["id_shapes", ref shapes @ ..] => options.id_shapes(numbers(shapes)),
            ["tail", "keep"] => options.tail(Tail::Keep),
            ["tail", "drop"] => options.tail(Tail::Drop),
            ["tail", "wrap"] => options.tail(Tail::Wrap),
            ["oversize", "skip"] => options.oversize(Oversize::Skip),
            ["oversize", "single"] => options.oversize(Oversize::Single),
            ["length_multiple", value] => options.length_multiple(number(value)),
            ["batch_size_multiple", value] => options.batch_size_multiple(number(value)),
            ["max_batch_size", value] => options.max_batch_size(number(value)),
            ["max_shapes", value] => options.max_shapes(number(value)),
            ["shapes", "auto"] => options.shapes(ShapeRule::Auto),
            _ => panic!("{}: unknown plan {words:?}", self.name),
        })
    }

    fn pack_options(&self) -> PackedOptions<'static> {
        self.pack.iter().fold(PackedOptions::new(), |options, words| match words[..] {
            ["capacity", capacity] => options.capacity(number(capacity)),
            ["capacities", ref each @ ..] => options.capacities(numbers(each)),
            // Other packings of one column have none.
            ["window", window] => options.window(number(window)),
            ["tries", tries] => options.tries(number(tries)),
            ["method", "shuffled"] => options.method(PackMethod::Shuffled),
            ["method", "best_fit"] => options.method(PackMethod::BestFit),
            ["method", "histogram"] => options.method(PackMethod::Histogram),
            ["method", "concat"] => options.method(PackMethod::Concat),
            ["length_multiple" | "length_multiples", ref each @ ..] => {
                options.length_multiples(numbers(each))
            }
            ["row_multiple" | "row_multiples", ref each @ ..] => {
                options.row_multiples(numbers(each))
            }
            ["max_sequences", most] => options.max_sequences(number(most)),
            ["split", "1"] => options.split(true),
            ["oversize", "skip"] => options.skip_oversize(),
            _ => panic!("{}: unknown packing {words:?}", self.name),
        })
    }

    fn balanced_options(&self) -> BalancedOptions<'static> {
        let options = BalancedOptions::new().budgets(budgets(&self.balanced));
        self.balanced.iter().fold(options, |options, words| match words[..] {
            ["samples", value] => options.samples(number(value)),
            ["budget", ..] | ["cost", "padded" | "quadratic"] | ["balance", "padded"] => options,
            ["balance", "quadratic"] => options.balance(Cost::quadratic()),
            ["length_multiple" | "length_multiples", ref each @ ..] => {
                options.length_multiples(numbers(each))
            }
            ["row_multiple" | "row_multiples", ref each @ ..] => {
                options.row_multiples(numbers(each))
            }
            ["fill", value] => options.fill(number(value)),
            ["padded", "1"] => options.padded(true),
            ["oversize", "skip"] => options.skip_oversize(),
            _ => panic!("{}: unknown balancing {words:?}", self.name),
        })
    }

    fn sampler_options(&self) -> SamplerOptions<'static> {
        self.options.iter().fold(SamplerOptions::new(), |options, words| match words[..] {
            ["seed", value] => options.seed(number(value)),
            ["rank", value] => options.rank(number(value)),
            ["world_size", value] => options.world_size(number(value)),
            ["micro_batches", value] => options.micro_batches(number(value)),
            ["costliest_first", value] => options.costliest_first(number(value)),
            ["mix_lengths", value] => options.mix_lengths(number::<u64>(value) == 1),
            ["steps_per_epoch", value] => options.steps_per_epoch(number(value)),
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

    fn mixture_of(&self, sizes: &Sizes<'static>) -> Result<Option<Mixture<'static>>, Error> {
        let mut ids = Vec::new();
        let options =
            self.mixture.iter().fold(MixtureOptions::new(), |options, words| match words[..] {
                ["sources", ref counts @ ..] => {
                    for (id, &count) in counts.iter().enumerate() {
                        ids.resize(ids.len() + number::<usize>(count), id as i64);
                    }
                    options
                }
                ["repeats", ref repeats @ ..] => options.repeats(numbers(repeats)),
                ["schedule", epoch, ref repeats @ ..] => {
                    options.schedule(number(epoch), numbers(repeats))
                }
                ["seed", value] => options.seed(number(value)),
                _ => panic!("{}: unknown mixture {words:?}", self.name),
            });
        if ids.is_empty() {
            return Ok(None);
        }
        Mixture::flat(sizes, &ids, &options).map(Some)
    }

    fn make_sampler(&self) -> Result<Sampler<'static>, Error> {
        let columns = self.sizes.iter().map(|sizes| Sizes::copied(sizes));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let named: Vec<_> = ["0", "1", "2"].into_iter().zip(&columns).collect();
        let together = if named.len() > 1 { Some(Sizes::columns(&named)?) } else { None };
        let sizes = together.as_ref().unwrap_or(&columns[0]);
        let mixture = self.mixture_of(sizes)?;
        let sizes: &Sizes<'static> = mixture.as_deref().unwrap_or(sizes);
        let options = self.sampler_options();
        let plan = || Plan::new(sizes, &self.plan_options());
        match self.sampler[..] {
            ["ordered", most] => Sampler::ordered(None, sizes, number(most), &options),
            ["packed"] => Sampler::packed(sizes, &self.pack_options(), &options),
            ["balanced"] => Sampler::balanced(sizes, &self.balanced_options(), &options),
            ["sharded"] => Sampler::sharded(sizes, &self.plan_options(), &options, |mine, all| {
                all.chunks_exact_mut(mine.len()).for_each(|rank| rank.copy_from_slice(mine));
                Ok(())
            }),
            ["bionemo"] => Sampler::bionemo(&plan()?, &BionemoOptions::new().seed(self.seed())),
            [kind] => match Sampler::OF_PLAN.iter().find(|of_plan| of_plan.0 == kind) {
                Some((_, make)) => make(&plan()?, &options),
                None => panic!("{}: unknown sampler {kind}", self.name),
            },
            _ => panic!("{}: unknown sampler {:?}", self.name, self.sampler),
        }
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
    let mut sampler: Option<Sampler<'static>> = None;
    let mut last: Option<Batch> = None;
    let mut expects_end = false;
    let mut column = 0; // whose cumulative lengths are next
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some((&key, values)) = words.split_first() else { continue };
        let of_a_batch =
            ["batch", "padded_length", "cu_seqlens", "cu_seqlens_unpadded", "starts", "step"];
        if expects_end && !of_a_batch.contains(&key) {
            assert!(
                sampler.as_mut().unwrap().next_ref().is_none(),
                "{}: more batches than recorded",
                case.name
            );
            expects_end = false;
        }
        match (key, values) {
            ("case", [name]) => case = Case { name, ..Case::default() },
            ("sizes", sizes) => case.sizes.push(numbers(sizes)),
            ("sizes_rule", [count, modulus]) => {
                case.sizes.push(sizes_by_rule(number(count), number(modulus)));
            }
            ("mixture", option) => case.mixture.push(option.to_vec()),
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
                column = 0;
                expects_end = true;
            }
            ("padded_length", lengths) => {
                let expected = numbers::<f64>(lengths);
                assert_eq!(last.as_ref().unwrap().padded_length[..], expected, "{}", case.name);
            }
            ("cu_seqlens", lengths) => {
                let expected: Vec<i32> = lengths.iter().copied().map(number).collect();
                let rows = last.as_ref().unwrap().cu_seqlens.as_ref().unwrap();
                assert_eq!(rows[column], expected, "{}", case.name);
                column += 1;
            }
            ("cu_seqlens_unpadded", lengths) => {
                let expected: Vec<i32> = lengths.iter().copied().map(number).collect();
                let rows = last.as_ref().unwrap().cu_seqlens_unpadded.as_ref().unwrap();
                assert_eq!(rows[column - case.sizes.len()], expected, "{}", case.name);
                column += 1;
            }
            ("starts", starts) => {
                let expected: Vec<i64> = starts.iter().copied().map(number).collect();
                assert_eq!(last.as_ref().unwrap().starts, Some(expected), "{}", case.name);
            }
            ("step", values) => {
                let batch = last.as_ref().unwrap();
                let step = sampler.as_mut().unwrap().step().unwrap();
                let totals = step.total.map_or(vec![-1.0], |totals| totals.to_vec());
                let shown = [batch.step, batch.micro_batch, step.micro_batches, step.samples]
                    .map(|each| each as f64);
                let expected: Vec<f64> = values.iter().copied().map(number).collect();
                assert_eq!([&shown[..], &totals].concat(), expected, "{}", case.name);
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
