"""Trains embeddings on pairs of sentences; all batches have as many pairs.
needs: datasets, transformers, accelerate, sentence_transformers"""

from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
from sentence_transformers import SentenceTransformerTrainingArguments as Arguments
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from toy_text import dataset, make_model, tokenizer

import sab.transformers


def pair_of(row):
    return {"anchor": row["text"], "positive": " ".join(sorted(row["text"].split()))}


def lengths(dataset):  # both texts of a pair are padded
    pairs = zip(dataset["anchor"], dataset["positive"])
    tokens = (tokenizer(list(pair), truncation=True)["input_ids"] for pair in pairs)
    return [max(map(len, both)) for both in tokens]


make_model().bert.save_pretrained("encoder")
tokenizer.save_pretrained("encoder")
model = SentenceTransformer(modules=[Transformer("encoder"), Pooling(16)])
arguments = Arguments(
    "run_pairs", num_train_epochs=1, use_cpu=True, disable_tqdm=True, report_to=[]
)
pairs = dataset.map(pair_of, remove_columns=dataset.column_names)
loss = MultipleNegativesRankingLoss(model)
trainer = SentenceTransformerTrainer(model, arguments, train_dataset=pairs, loss=loss)
sab.transformers.prepare(trainer, batch_size=32, lengths=lengths)
trainer.train()
print(f"step {trainer.state.global_step}")
