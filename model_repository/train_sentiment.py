"""Makes the sample model `sentiment`: a small BERT, trained on sentences that this script writes, and its tokenizer.

    pip install torch transformers onnx onnxruntime
    python train_sentiment.py

The folder is what `save_pretrained` writes, with the graph in place of the weights. Seeds are fixed.
"""

import random
import shutil
import tempfile
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from tokenizers.pre_tokenizers import BertPreTokenizer
from transformers import BertConfig, BertForSequenceClassification, BertTokenizer

FOLDER = Path(__file__).parent / "sentiment"
LONGEST = 64

GOOD = """happy glad good great wonderful lovely excellent delightful pleased perfect brilliant fantastic superb charming
splendid nice amazing awesome cheerful thrilled satisfied helpful friendly fresh tasty reliable""".split()
BAD = """sad bad terrible awful horrible poor angry boring dull dreadful miserable disappointing ugly useless broken rude
annoying dirty slow stale nasty upset unhappy disgusting faulty tedious""".split()
SUBJECTS = """the film|the ending|the food|this hotel|our room|the service|the book|my day|the weather|the story|the music|this phone
|the battery|your answer|the staff|the trip|the coffee|the delivery|it|everything|the price|the team""".replace("\n", "").split("|")
PEOPLE = "i am|we are|she is|he was|they were|my friends are|i feel|everybody was|i was".split("|")
VERY = ["", "", "", "very", "so", "really", "super", "quite", "absolutely", "just"]
BEFORE = ["", "", "", "honestly ,", "in the end", "yesterday", "again ,", "to be fair ,", "well ,", "last week"]
AFTER = [".", "!", "", " right now.", " today.", " as ever.", " for me.", ", i think.", " this time.", ", and i would say so again."]
LIKE, HATE = ["love", "enjoy", "like", "recommend", "adore"], ["hate", "regret", "dislike", "despise", "avoid"]


def sentence(rng):
    """A sentence and whether it is positive. `not` turns a quarter of them round."""
    positive = rng.random() < 0.5
    turned = rng.random() < 0.25
    word = rng.choice(GOOD if positive != turned else BAD)
    no = "not" if turned else ""
    kind = rng.random()
    if kind < 0.4:
        verb = rng.choice(["is", "was", "looks", "seems"]) if not turned else rng.choice(["is", "was"])
        text = f"{rng.choice(SUBJECTS)} {verb} {no} {rng.choice(VERY)} {word}"
    elif kind < 0.7:
        text = f"{rng.choice(PEOPLE)} {no} {rng.choice(VERY)} {word}"
    elif kind < 0.85:
        verb = rng.choice(LIKE if positive != turned else HATE)
        text = f"i {'do not' if turned else rng.choice(['', 'really', 'truly'])} {verb} {rng.choice(SUBJECTS)}"
    else:
        text = f"what a {no} {rng.choice(VERY)} {word} {rng.choice(['film', 'day', 'hotel', 'book', 'idea', 'meal', 'place'])}"
    text = f"{rng.choice(BEFORE)} {text}".strip()
    return " ".join(text.split()) + rng.choice(AFTER), int(positive)


def tokenizer(texts):
    """Every word of the sentences, and the letters of all others."""
    splitter = BertPreTokenizer()
    known = {word for text in texts for word, _ in splitter.pre_tokenize_str(text)}
    letters = "abcdefghijklmnopqrstuvwxyz0123456789"
    pieces = sorted(known | set(letters) | {f"##{letter}" for letter in letters})
    vocabulary = {word: index for index, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *pieces])}
    return BertTokenizer(vocab=vocabulary, do_lower_case=True, model_max_length=LONGEST)


def main():
    torch.manual_seed(2)
    torch.set_num_threads(1)
    rng = random.Random(1)
    train, held_out = [sentence(rng) for _ in range(12_000)], [sentence(rng) for _ in range(1_000)]
    words = tokenizer([text for text, _ in train])
    names = ["NEGATIVE", "POSITIVE"]
    config = BertConfig(vocab_size=len(words), hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                        intermediate_size=64, max_position_embeddings=LONGEST, hidden_dropout_prob=0.1,
                        attention_probs_dropout_prob=0.0, id2label=dict(enumerate(names)),
                        label2id={name: index for index, name in enumerate(names)}, attn_implementation="eager")
    model = BertForSequenceClassification(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    model.train()
    for _ in range(8):
        rng.shuffle(train)
        for begin in range(0, len(train), 64):
            texts, labels = zip(*train[begin:begin + 64])
            batch = words(list(texts), padding=True, return_tensors="pt")
            loss = model(**batch, labels=torch.tensor(labels)).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    model.eval()
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as saved:
        model.save_pretrained(saved)
        words.save_pretrained(saved)
        for file in ("config.json", "tokenizer.json", "tokenizer_config.json"):
            shutil.copy(Path(saved) / file, FOLDER / file)
    example = words("a b", return_tensors="pt")
    axes = {0: "batch", 1: "tokens"}
    inputs = ["input_ids", "attention_mask"]
    torch.onnx.export(model, tuple(example[name] for name in inputs), FOLDER / "model.onnx", opset_version=17, dynamo=False,
                      input_names=inputs, output_names=["logits"],
                      dynamic_axes={name: axes for name in inputs} | {"logits": {0: "batch"}})
    session = onnxruntime.InferenceSession(FOLDER / "model.onnx", providers=["CPUExecutionProvider"])

    def scores(text):
        ids = words(text, return_tensors="np")
        logits = session.run(["logits"], {name: ids[name].astype(np.int64) for name in inputs})[0][0]
        return np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()

    right = sum(int(scores(text).argmax() == label) for text, label in held_out)
    print(f"right: {right} of {len(held_out)} sentences that were not trained on; {len(words)} words")
    for text in ("I am super happy right now.", "What a sad and terrible day!"):
        print(text, names[int(scores(text).argmax())], round(float(scores(text).max()), 4))


if __name__ == "__main__":
    main()
