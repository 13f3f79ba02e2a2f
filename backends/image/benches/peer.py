"""The other side of the bench `image`: Pillow, OpenCV and NumPy by hand, as those write it who want it fast."""

import io
import sys
import time

import numpy
import PIL
from PIL import Image, features

try:
    import cv2

    cv2.setNumThreads(1)
except ImportError:
    cv2 = None

FILTERS = ["nearest", "lanczos", "bilinear", "bicubic", "box", "hamming"]
CLIP_MEAN = numpy.array([0.48145466, 0.4578275, 0.40821073], numpy.float32)
CLIP_DEVIATION = numpy.array([0.26862954, 0.26130258, 0.27577711], numpy.float32)
HALF = numpy.full(3, 0.5, numpy.float32)


def photograph(width, height):
    """Waves of many lengths with some noise: as large as a photograph at the same quality."""
    y, x = numpy.mgrid[0:height, 0:width].astype(numpy.float32)
    noise = numpy.random.default_rng(7).normal(0, 2.5, (height, width))

    def waves(channel):
        lengths = (3, 11, 37, 160)
        return sum(numpy.sin(x / it + channel) * numpy.cos(y / (it * 0.7) - channel) for it in lengths) * 28 + 128

    channels = [waves(it) + noise for it in range(3)]
    return numpy.clip(numpy.stack(channels, -1), 0, 255).astype(numpy.uint8)


def normalized(image, mean, deviation):
    values = numpy.asarray(image, numpy.float32) * numpy.float32(1 / 255)
    return numpy.ascontiguousarray(((values - mean) / deviation).transpose(2, 0, 1))


def clip(image):
    width, height = image.size
    image = image.resize((int(224 * width / height), 224), Image.Resampling.BICUBIC)
    left = (image.size[0] - 224) // 2
    return normalized(image.crop((left, 0, left + 224, 224)), CLIP_MEAN, CLIP_DEVIATION)


def letterbox(image):
    image = cv2.resize(image, (640, 360), interpolation=cv2.INTER_LINEAR)
    image = cv2.copyMakeBorder(image, 140, 140, 0, 0, cv2.BORDER_CONSTANT, value=(114, 114, 114))
    return numpy.ascontiguousarray(image[..., ::-1].transpose(2, 0, 1)).astype(numpy.float32) / 255


def yolo(data):
    return letterbox(cv2.imdecode(numpy.frombuffer(data, numpy.uint8), cv2.IMREAD_COLOR))


def main():
    out = io.BytesIO()
    Image.fromarray(photograph(1920, 1080)).save(out, "JPEG", quality=90)
    data = out.getvalue()
    with open(sys.argv[1], "wb") as file:
        file.write(data)
    version = features.version_feature("libjpeg_turbo")
    print(f"Pillow {PIL.__version__}, libjpeg-turbo {version}, {len(data)} bytes of JPEG", flush=True)

    def decoded():
        return Image.open(io.BytesIO(data)).convert("RGB")

    image = decoded()
    array = numpy.asarray(image)
    small = image.resize((224, 224), Image.Resampling.BILINEAR)
    for line in sys.stdin:
        name, *words = line.split()
        run = {
            "decode": decoded,
            "resize": lambda: image.resize((int(words[0]), int(words[1])), FILTERS.index(words[2])),
            "opencv": lambda: cv2.resize(array, (640, 360), interpolation=cv2.INTER_LINEAR),
            "letterbox": lambda: letterbox(array),
            "values": lambda: normalized(small, HALF, HALF),
            "all": lambda: {
                "ViT": lambda: normalized(decoded().resize((224, 224), Image.Resampling.BILINEAR), HALF, HALF),
                "CLIP": lambda: clip(decoded()),
                "YOLO": lambda: yolo(data),
            }[words[1]](),
        }[name]
        if cv2 is None and (name in ("opencv", "letterbox") or "YOLO" in words):
            print("-", flush=True)
            continue
        begin = time.thread_time()
        run()
        print((time.thread_time() - begin) * 1e3, flush=True)


if __name__ == "__main__":
    main()
