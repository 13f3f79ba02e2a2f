"""Makes the sample model `shapes`: a small ResNet, trained on pictures of shapes that this script draws.

    pip install torch transformers onnx onnxruntime pillow
    python train_shapes.py

The folder is what `save_pretrained` writes, with the graph in place of the weights, and a picture to ask about. Seeds
are fixed.
"""

import math
import random
import shutil
import tempfile
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from PIL import Image, ImageDraw
from transformers import ResNetConfig, ResNetForImageClassification, ViTImageProcessorPil

FOLDER = Path(__file__).parent / "shapes"
SIDE = 48
NAMES = ("circle", "cross", "square", "star", "triangle")


def corners(name, turn):
    """The corners of a shape around zero, the farthest at a distance of one."""
    def around(count, radii):
        angles = [turn + 2 * math.pi * index / count for index in range(count)]
        return [(radius * math.cos(angle), radius * math.sin(angle)) for angle, radius in zip(angles, radii)]
    if name == "circle":
        return around(48, [1] * 48)
    if name == "square":
        return around(4, [1] * 4)
    if name == "triangle":
        return around(3, [1] * 3)
    if name == "star":
        return around(10, [1, 0.42] * 5)
    bars = [(-1, -0.3), (-0.3, -0.3), (-0.3, -1), (0.3, -1), (0.3, -0.3), (1, -0.3),
            (1, 0.3), (0.3, 0.3), (0.3, 1), (-0.3, 1), (-0.3, 0.3), (-1, 0.3)]
    cosine, sine = math.cos(turn) / 1.1, math.sin(turn) / 1.1
    return [(x * cosine - y * sine, x * sine + y * cosine) for x, y in bars]


def picture(rng, name, side):
    """One shape of any colour and place on another colour, with noise."""
    scale = 4  # drawn larger, for smooth edges
    back, front = ([rng.randrange(256) for _ in range(3)] for _ in range(2))
    while sum(abs(a - b) for a, b in zip(back, front)) < 160:
        front = [rng.randrange(256) for _ in range(3)]
    radius = rng.uniform(0.25, 0.42) * side
    x, y = (rng.uniform(radius, side - radius) for _ in range(2))
    image = Image.new("RGB", (side * scale, side * scale), tuple(back))
    places = [((x + radius * dx) * scale, (y + radius * dy) * scale) for dx, dy in corners(name, rng.uniform(0, 7))]
    ImageDraw.Draw(image).polygon(places, fill=tuple(front))
    values = np.asarray(image.resize((side, side), Image.Resampling.BOX)).astype(np.int16)
    noise = np.random.RandomState(rng.randrange(1 << 30)).randint(-12, 13, values.shape)
    return Image.fromarray((values + noise).clip(0, 255).astype(np.uint8))


def main():
    torch.manual_seed(2)
    torch.set_num_threads(1)
    rng = random.Random(1)
    processor = ViTImageProcessorPil(size={"height": SIDE, "width": SIDE})

    def drawn(count):
        labels = [index % len(NAMES) for index in range(count)]
        images = [picture(rng, NAMES[label], SIDE) for label in labels]
        return processor(images, return_tensors="pt")["pixel_values"], torch.tensor(labels)

    pixels, labels = drawn(6_000)
    held_out, right = drawn(1_000)
    config = ResNetConfig(embedding_size=12, hidden_sizes=[12, 24, 48], depths=[1, 1, 1], layer_type="basic",
                          id2label=dict(enumerate(NAMES)), label2id={name: index for index, name in enumerate(NAMES)})
    model = ResNetForImageClassification(config)
    epochs = 10
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    steps = epochs * math.ceil(len(labels) / 64)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=steps)
    model.train()
    for _ in range(epochs):
        for batch in torch.randperm(len(labels)).split(64):
            loss = model(pixel_values=pixels[batch], labels=labels[batch]).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    model.eval()
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as saved:
        model.save_pretrained(saved)
        processor.save_pretrained(saved)
        for file in ("config.json", "preprocessor_config.json"):
            shutil.copy(Path(saved) / file, FOLDER / file)
    axes = {"pixel_values": {0: "batch"}, "logits": {0: "batch"}}
    torch.onnx.export(model, (held_out[:2],), FOLDER / "model.onnx", opset_version=17, dynamo=False,
                      input_names=["pixel_values"], output_names=["logits"], dynamic_axes=axes)
    picture(random.Random(7), "star", 160).save(FOLDER / "star.jpg", quality=90)
    session = onnxruntime.InferenceSession(FOLDER / "model.onnx", providers=["CPUExecutionProvider"])
    found = session.run(["logits"], {"pixel_values": held_out.numpy()})[0].argmax(1)
    weights = sum(weight.numel() for weight in model.parameters())
    print(f"right: {int((found == right.numpy()).sum())} of {len(right)} pictures that were not trained on; {weights} weights")
    star = processor(Image.open(FOLDER / "star.jpg"), return_tensors="np")["pixel_values"]
    logits = session.run(["logits"], {"pixel_values": star})[0][0]
    scores = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
    print("star.jpg:", [(NAMES[index], round(float(scores[index]), 4)) for index in scores.argsort()[::-1]])


if __name__ == "__main__":
    main()
