"""Trains a causal language model on packed rows.
needs: datasets, transformers, accelerate, trl"""

from toy_text import dataset, tokenizer
from transformers import LlamaConfig, LlamaForCausalLM
from trl import SFTConfig, SFTTrainer

import sab.transformers

tokenizer.eos_token = "[UNK]"  # SFTTrainer appends it
dataset = dataset.remove_columns("label").train_test_split(0.1, seed=0)
small = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
model = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), num_attention_heads=2, **small))
arguments = SFTConfig(
    "run_rows",
    max_length=128,
    learning_rate=1e-2,
    num_train_epochs=1,
    use_cpu=True,
    bf16=False,
    logging_strategy="no",
    disable_tqdm=True,
    report_to=[],
)
trainer = SFTTrainer(
    model,
    arguments,
    train_dataset=dataset["train"],
    eval_dataset=dataset["test"],
    processing_class=tokenizer,
)
sab.transformers.prepare(trainer, capacity=1024)  # tokens a row
trainer.train()
print(f"step {trainer.state.global_step}, loss {trainer.evaluate()['eval_loss']:.2f}")
