//! burn: sentences of random words, labelled by whether word 1 is in them.

use burn::backend::{Autodiff, NdArray};
use burn::module::Module;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{Embedding, EmbeddingConfig, Linear, LinearConfig};
use burn::optim::{AdamConfig, GradientsParams, Optimizer};
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Int, Tensor, TensorData};
use libsab::{BatchRef, Plan, PlanOptions, Sampler, SamplerOptions, Sizes};

type Sample = (Vec<i32>, i32);

// [tensors]
/// A batch as tensors: words, count x length, padded with 0, and labels.
fn tensors<B: Backend>(
    samples: &[Sample],
    batch: &BatchRef<'_>,
    device: &B::Device,
) -> (Tensor<B, 2, Int>, Tensor<B, 1, Int>) {
    let (count, length) = (batch.indices.len(), batch.padded_length[0] as usize);
    let mut words = vec![0; count * length];
    for (row, &index) in words.chunks_mut(length).zip(batch.indices) {
        let sentence = &samples[index as usize].0;
        row[..sentence.len()].copy_from_slice(sentence);
    }
    let labels: Vec<i32> = batch.indices.iter().map(|&index| samples[index as usize].1).collect();
    (
        Tensor::from_data(TensorData::new(words, [count, length]), device),
        Tensor::from_data(TensorData::new(labels, [count]), device),
    )
}
// [end]

#[derive(Module, Debug)]
struct Model<B: Backend> {
    embedding: Embedding<B>,
    output: Linear<B>,
}

impl<B: Backend> Model<B> {
    fn new(device: &B::Device) -> Self {
        Model {
            embedding: EmbeddingConfig::new(30, 16).init(device),
            output: LinearConfig::new(16, 2).init(device),
        }
    }

    fn forward(&self, words: Tensor<B, 2, Int>) -> Tensor<B, 2> {
        let padding = words.clone().equal_elem(0).unsqueeze_dim::<3>(1);
        let hidden = self.embedding.forward(words).swap_dims(1, 2); // count x width x length
        let padding = padding.expand(hidden.dims());
        self.output.forward(hidden.mask_fill(padding, -1e9).max_dim(2).squeeze(2))
    }
}

// [train]
/// Trains some epochs; the mean losses of their steps.
fn train<B: AutodiffBackend>(
    samples: &[Sample],
    plan: &Plan,
    epochs: u64,
    device: &B::Device,
) -> Result<Vec<f32>, libsab::Error> {
    let mut model = Model::<B>::new(device);
    let mut optimizer = AdamConfig::new().init();
    let mut sampler = Sampler::bucket(plan, &SamplerOptions::new().seed(1))?;
    let mut losses = Vec::new();
    for epoch in 0..epochs {
        sampler.set_epoch(epoch)?;
        let mut sum = 0.0;
        while let Some(batch) = sampler.next_ref() {
            let batch = batch?;
            let (words, labels) = tensors::<B>(samples, &batch, device);
            let loss =
                CrossEntropyLossConfig::new().init(device).forward(model.forward(words), labels);
            let weighted = loss.clone() * batch.sample_weight; // each sample counts the same
            let gradients = GradientsParams::from_grads(weighted.backward(), &model);
            sum += loss.into_data().to_vec::<f32>().expect("the backend's numbers are f32")[0];
            model = optimizer.step(0.05, model, gradients);
        }
        losses.push(sum / sampler.batch_count()? as f32);
    }
    Ok(losses)
}
// [end]

/// Lengths and words from a small generator: no crate for that.
fn samples(count: usize) -> Vec<Sample> {
    let mut state = 1_u64;
    let mut draw = |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    (0..count)
        .map(|_| {
            let length = 1 + draw(8) * draw(8);
            let words: Vec<i32> = (0..length).map(|_| 1 + draw(29) as i32).collect();
            let label = i32::from(words.contains(&1));
            (words, label)
        })
        .collect()
}

fn main() -> Result<(), libsab::Error> {
    let samples = samples(500);
    let sizes: Vec<u32> = samples.iter().map(|(words, _)| words.len() as u32).collect();
    let plan = Plan::new(&Sizes::borrowed(&sizes)?, &PlanOptions::new().budget(512.0))?;
    Autodiff::<NdArray>::seed(0);
    let losses = train::<Autodiff<NdArray>>(&samples, &plan, 3, &Default::default())?;
    println!("mean losses of three epochs: {losses:.2?}");
    assert!(losses[2] < losses[0]);
    Ok(())
}
