"""Texts with labels, a tokenizer of their words, and a small model.
needs: datasets, transformers"""

# [toy]
import random

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

draw = random.Random(0)
words = [f"word{number}" for number in range(100)]
texts = [" ".join(draw.choices(words, k=int(draw.lognormvariate(3, 0.7)) + 1)) for _ in range(2000)]
dataset = Dataset.from_dict({"text": texts, "label": [int("word1 " in text) for text in texts]})

vocabulary = {word: number for number, word in enumerate(["[PAD]", "[UNK]", *words])}
words_of = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
words_of.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=words_of, pad_token="[PAD]", unk_token="[UNK]", model_max_length=128
)


def make_model():
    torch.manual_seed(0)
    options = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
    options |= {"num_attention_heads": 2, "hidden_dropout_prob": 0.0}
    config = BertConfig(vocab_size=len(tokenizer), **options)
    return BertForSequenceClassification(config)


# [end]
