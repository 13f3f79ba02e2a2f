#!/usr/bin/env python3
"""Writes `golden/`: images of all kinds, and what Pillow, OpenCV and the processors of transformers make of them.

Wants pillow, numpy, opencv-python-headless, torch, torchvision, transformers and timm:

    python3 backends/image/tests/make.py

The tests need none of it. Large results are kept as the MD5 of their bytes.
"""

import hashlib
import io
import json
import struct
import zlib
from pathlib import Path

import cv2
import numpy
import PIL
import timm
import torch
import torchvision
import torchvision.transforms.v2
import transformers
from PIL import Image, ImageOps, features

FOLDER = Path(__file__).parent / "golden"
FILES = FOLDER / "files"
FILTERS = ["nearest", "lanczos", "bilinear", "bicubic", "box", "hamming"]


def pattern(width, height):
    """The image that the tests compute, too: waves with some noise on them."""
    y, x = numpy.mgrid[0:height, 0:width].astype(numpy.uint32)
    channels = [((x * (3 + c) + y * (5 - c)) ^ ((x * y) >> 3)) + c * 61 for c in range(3)]
    return (numpy.stack(channels, axis=-1) & 255).astype(numpy.uint8)


def smooth(width, height):
    """An image that JPEG can hold."""
    y, x = numpy.mgrid[0:height, 0:width].astype(numpy.float64)
    waves = [numpy.sin(x / (5 + c) + c) * numpy.cos(y / (7 - c)) * 110 + 128 for c in range(3)]
    return numpy.stack(waves, axis=-1).astype(numpy.uint8)


def digest(array):
    return hashlib.md5(numpy.ascontiguousarray(array).tobytes()).hexdigest()


def resized():
    sizes = [
        ((97, 61), (224, 224)), ((97, 61), (48, 30)), ((97, 61), (97, 20)), ((97, 61), (20, 61)),
        ((97, 61), (1, 1)), ((61, 97), (60, 96)), ((1, 1), (5, 3)), ((2, 300), (3, 7)),
        ((640, 480), (224, 224)), ((640, 480), (333, 256)), ((123, 77), (250, 160)), ((500, 3), (17, 9)),
    ]
    cases = []
    for (width, height), (to_width, to_height) in sizes:
        image = Image.fromarray(pattern(width, height))
        for number, name in enumerate(FILTERS):
            out = numpy.array(image.resize((to_width, to_height), number))
            cases.append({"from": [width, height], "to": [to_width, to_height], "filter": name, "md5": digest(out)})
    return cases


def resized_by_opencv():
    cases = []
    for size, to in [((97, 61), (48, 30)), ((640, 480), (320, 240)), ((640, 480), (213, 160)), ((641, 479), (640, 478)),
                     ((640, 480), (100, 33)), ((97, 61), (97, 33)), ((61, 97), (224, 224)), ((9, 7), (64, 64))]:
        out = cv2.resize(pattern(*size), to, interpolation=cv2.INTER_LINEAR)
        case = {"from": size, "to": to, "md5": digest(out)}
        if out.size <= 20000:
            name = f"opencv-{to[0]}x{to[1]}.png"
            Image.fromarray(out).save(FILES / name)
            case["file"] = name
        cases.append(case)
    return cases


def processors():
    classes = [
        "ViT", "DeiT", "CLIP", "ChineseCLIP", "Siglip", "Blip", "Bit", "Pvt", "MobileNetV1", "MobileNetV2", "Beit",
        "ConvNext", "EfficientNet", "Levit", "MobileViT", "Detr", "ConditionalDetr", "DeformableDetr", "Yolos", "RTDetr",
    ]
    small = {"shortest_edge": 60, "longest_edge": 90}
    variants = {
        "ViT": [
            {"size": 64}, {"size": [30, 50]}, {"size": small}, {"size": {"max_height": 50, "max_width": 70}},
            {"resample": 0}, {"resample": 1}, {"resample": 4}, {"resample": 5}, {"do_rescale": False},
            {"do_normalize": False}, {"rescale_factor": 1 / 127.5, "image_mean": [1.0, 1.0, 1.0]},
            {"do_resize": False, "do_center_crop": True, "crop_size": 80},
            {"do_center_crop": True, "crop_size": {"height": 81, "width": 33}, "do_resize": False},
            {"size": {"height": 40, "width": 40}, "do_pad": True, "pad_size": {"height": 64, "width": 48}},
            {"image_mean": 0.4, "image_std": 0.3},
        ],
        "CLIP": [{"size": 72, "crop_size": 64}, {"size": {"shortest_edge": 31}, "crop_size": 64},
                 {"use_square_size": False, "size": {"height": 50, "width": 60}}],
        "ConvNext": [{"size": {"shortest_edge": 100}}, {"size": {"shortest_edge": 224}, "crop_pct": 0.9},
                     {"size": 64, "do_center_crop": True, "crop_size": 33}],
        "EfficientNet": [{"include_top": False}, {"rescale_offset": True, "rescale_factor": 1 / 127.5},
                         {"do_center_crop": True}],
        "Levit": [{"size": {"height": 60, "width": 61}}, {"size": {"shortest_edge": 111}}],
        "MobileViT": [{"do_flip_channel_order": False}, {"size": {"shortest_edge": 64}, "do_normalize": True}],
        "Beit": [{"do_center_crop": True}, {"size": 50}],
        "Detr": [{"size": small}, {"size": 70, "max_size": 100}, {"do_pad": False, "size": small},
                 {"size": small, "pad_size": {"height": 100, "width": 96}}, {"size": {"height": 50, "width": 60}},
                 {"size": {"max_height": 50, "max_width": 70}}, {"pad_and_return_pixel_mask": False, "size": small}],
        "Yolos": [{"size": small}, {"size": {"shortest_edge": 61, "longest_edge": 500}}],
        "RTDetr": [{"size": {"height": 64, "width": 64}}, {"do_normalize": True, "size": small}, {"do_pad": True}],
    }
    cases = []
    for name in classes:
        kind = getattr(transformers, f"{name}ImageProcessorPil")
        saved = kind().to_dict()
        saved.pop("processor_class", None)
        configs = [{"image_processor_type": f"{name}ImageProcessor"}, saved]
        configs += [{"image_processor_type": f"{name}ImageProcessorFast", **it} for it in variants.get(name, [])]
        for index, config in enumerate(configs):
            arguments = {key: value for key, value in config.items() if key != "image_processor_type"}
            processor = kind(**arguments)
            for width, height in [(97, 61), (61, 97), (60, 60)] if index != 1 else [(97, 61)]:
                found = processor(Image.fromarray(pattern(width, height)), return_tensors="np")
                cases.append(described(config, (width, height), found["pixel_values"][0], found.get("pixel_mask")))
    cases += timm_wrapper()
    return cases


def described(config, size, values, mask=None):
    values = numpy.ascontiguousarray(values, dtype=numpy.float32)
    case = {"config": config, "from": size, "shape": values.shape, "md5": digest(values)}
    case["samples"] = [float(it) for it in values.reshape(-1)[:: max(1, values.size // 5)][:6]]
    if mask is not None:
        mask = mask[0]
        case["mask"] = [int(mask.max(axis=1).sum()), int(mask.max(axis=0).sum())]
    return case


def timm_wrapper():
    cases = []
    for given in [
        {}, {"input_size": [3, 64, 64], "crop_pct": 1.0, "interpolation": "bilinear"},
        {"input_size": [3, 64, 96], "crop_pct": 0.9, "mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]},
        {"input_size": [3, 65, 65], "crop_pct": 0.95, "crop_mode": "squash"},
        {"input_size": [3, 64, 64], "crop_pct": 0.875, "crop_mode": "center", "interpolation": "lanczos"},
    ]:
        config = {"architecture": "resnet18", "pretrained_cfg": {"num_classes": 3, **given}}
        processor = transformers.TimmWrapperImageProcessor(**config)
        for size in [(97, 61), (61, 98)]:
            found = processor(Image.fromarray(pattern(*size)))["pixel_values"][0].numpy()
            cases.append(described(config, size, found))
    return cases


def torchvisions():
    """What the other backend of transformers makes of an image: near to Pillow, and not equal.

    It calls the functions of `transforms.v2`, which keep the bytes of an image where the processor has AVX2. Those of
    `transforms` go by way of floats and are further from Pillow.
    """
    cases = []
    Image.fromarray(smooth(97, 61)).save(FILES / "smooth.png", optimize=True)
    for name, mode in [("bilinear", "BILINEAR"), ("bicubic", "BICUBIC")]:
        for to in [(48, 30), (64, 64)]:
            image = torch.from_numpy(smooth(97, 61).transpose(2, 0, 1).copy())
            mode_of = torchvision.transforms.v2.InterpolationMode[mode]
            out = torchvision.transforms.v2.functional.resize(image, to[::-1], mode_of, antialias=True)
            file = f"torchvision-{name}-{to[0]}x{to[1]}.png"
            Image.fromarray(out.numpy().transpose(1, 2, 0)).save(FILES / file, optimize=True)
            cases.append({"from": "smooth.png", "to": to, "filter": name, "file": file})
    return cases


def letterboxed():
    """Ultralytics' letterbox, from its description: it is not a package that the tests want."""
    cases = []
    for size, target, stride in [((97, 61), (64, 64), None), ((61, 97), (64, 96), None), ((97, 61), (64, 64), 32),
                                 ((500, 333), (640, 640), None), ((333, 500), (640, 640), 32), ((640, 480), (320, 320), None)]:
        image = pattern(*size)
        gain = min(target[0] / image.shape[0], target[1] / image.shape[1])
        inner = round(image.shape[1] * gain), round(image.shape[0] * gain)
        across, down = target[1] - inner[0], target[0] - inner[1]
        if stride:
            across, down = across % stride, down % stride
        across, down = across / 2, down / 2
        if image.shape[:2][::-1] != inner:
            image = cv2.resize(image, inner, interpolation=cv2.INTER_LINEAR)
        top, bottom, left, right = round(down - 0.1), round(down + 0.1), round(across - 0.1), round(across + 0.1)
        image = cv2.copyMakeBorder(image, top, bottom, left, right, cv2.BORDER_CONSTANT, value=(114,) * 3)
        values = torch.from_numpy(image.transpose(2, 0, 1).copy()).float()
        values /= 255
        cases.append({"from": size, "to": target, "stride": stride, "size": image.shape[:2], "gain": gain,
                      "left": left, "top": top, "md5": digest(image), "values": digest(values.numpy())})
    return cases


def classified():
    """What Ultralytics' classifiers take, from its description: torchvision's steps on images of Pillow's."""
    transforms = torchvision.transforms
    cases = []
    for size, to in [((97, 61), (64, 64)), ((61, 97), (64, 64)), ((99, 61), (64, 64)), ((60, 60), (64, 64)),
                     ((40, 31), (65, 65)), ((640, 480), (224, 224)), ((97, 61), (64, 96))]:
        resize = transforms.Resize(to[0] if to[0] == to[1] else to)
        steps = transforms.Compose([resize, transforms.CenterCrop(to), transforms.ToTensor()])
        cases.append({"from": size, "to": to, "md5": digest(steps(Image.fromarray(pattern(*size))).numpy())})
    return cases


def jpegs():
    """Bytes by name."""
    found = {}

    def pillow(name, image, **options):
        out = io.BytesIO()
        image.save(out, "JPEG", **options)
        found[name] = out.getvalue()

    rgb = Image.fromarray(smooth(61, 47))
    for subsampling, label in [(0, "444"), (1, "422"), (2, "420")]:
        for quality in [30, 75, 95]:
            pillow(f"{label}-q{quality}", rgb, subsampling=subsampling, quality=quality)
        pillow(f"{label}-progressive", rgb, subsampling=subsampling, progressive=True)
    for width, height in [(1, 1), (8, 8), (16, 16), (17, 15), (7, 33), (64, 1), (1, 64), (130, 3)]:
        pillow(f"420-{width}x{height}", Image.fromarray(smooth(width, height)), subsampling=2)
    pillow("grey", rgb.convert("L"))
    pillow("grey-progressive", rgb.convert("L"), progressive=True)
    pillow("rgb", rgb, keep_rgb=True)
    pillow("restart", rgb, restart_marker_blocks=3)
    pillow("optimized", rgb, optimize=True, quality=60)
    pillow("tables-shared", rgb, quality=50, optimize=True, progressive=True, subsampling=1)
    pillow("noise", Image.fromarray(pattern(61, 47)), quality=90)
    cmyk = rgb.convert("CMYK")
    pillow("cmyk", cmyk)
    pillow("cmyk-progressive", cmyk, progressive=True)
    # The same data as YCCK: the byte behind Adobe's flags says which of the two it is.
    data = bytearray(found["cmyk"])
    at = data.index(b"Adobe") + 11
    data[at] = 2
    found["ycck"] = bytes(data)
    for sampling, label in [(0x411111, "411"), (0x121111, "440")]:
        _, out = cv2.imencode(".jpg", smooth(61, 47), [cv2.IMWRITE_JPEG_SAMPLING_FACTOR, sampling])
        found[label] = out.tobytes()
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        pillow(f"exif-{orientation}", rgb, exif=exif)
    return {f"{name}.jpg": data for name, data in found.items()}


def png(width, height, depth, colour, interlaced=False, **chunks):
    """A PNG of this kind with rows of a formula; Pillow writes few of the kinds."""
    samples = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour]

    def rows(width, height, seed):
        line = (width * depth * samples + 7) // 8
        for y in range(height):
            yield b"\0" + bytes((x * 37 + y * 11 + seed * 5 + (x * y >> 2)) & 255 for x in range(line))

    passes = [(0, 0, 1, 1)]
    if interlaced:
        passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
    raw = b""
    for seed, (left, top, across, down) in enumerate(passes):
        inner = (width - left + across - 1) // across, (height - top + down - 1) // down
        if all(inner):
            raw += b"".join(rows(*inner, seed))

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    out = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced))
    for name, data in chunks.items():
        out += chunk(name.encode(), data)
    return out + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")


def pngs():
    found = {}
    palette = bytes((it * 7 + 3) & 255 for it in range(256 * 3))
    for colour, label, depths in [(0, "grey", [1, 2, 4, 8, 16]), (2, "rgb", [8, 16]), (3, "palette", [1, 2, 4, 8]),
                                  (4, "alpha-grey", [8, 16]), (6, "alpha-rgb", [8, 16])]:
        for depth in depths:
            chunks = {"PLTE": palette[: 3 << depth]} if colour == 3 else {}
            for interlaced in [False, True]:
                name = f"{label}-{depth}{'-interlaced' if interlaced else ''}"
                found[name] = png(19, 13, depth, colour, interlaced, **chunks)
    found["palette-short"] = png(19, 13, 8, 3, PLTE=palette[: 3 * 100])
    found["palette-transparent"] = png(19, 13, 8, 3, PLTE=palette, tRNS=bytes(range(256)))
    found["rgb-transparent"] = png(19, 13, 8, 2, tRNS=b"\0\1\0\2\0\3")
    found["grey-transparent"] = png(19, 13, 8, 0, tRNS=b"\0\x25")
    exif = Image.Exif()
    exif[0x0112] = 6
    found["exif-6"] = png(19, 13, 8, 2, eXIf=exif.tobytes()[6:])
    return {f"{name}.png": data for name, data in found.items()}


def others():
    found = {}

    def save(name, image, kind, **options):
        out = io.BytesIO()
        image.save(out, kind, **options)
        found[name] = out.getvalue()

    rgb, noise = Image.fromarray(smooth(61, 47)), Image.fromarray(pattern(61, 47))
    modes = {"1": rgb.convert("1"), "L": rgb.convert("L"), "P": rgb.quantize(64), "RGB": noise}
    few = rgb.quantize(13)
    for mode, image in modes.items():
        save(f"{mode}.bmp", image, "BMP")
        save(f"{mode}.gif", image, "GIF")
        for compression in [None, "tiff_lzw", "tiff_adobe_deflate", "packbits"]:
            save(f"{mode}-{compression or 'plain'}.tiff", image, "TIFF", compression=compression)
    alpha = noise.convert("RGBA")
    alpha.putalpha(rgb.convert("L"))
    save("RGBA.bmp", alpha, "BMP")
    save("RGBA.tiff", alpha, "TIFF")
    save("LA.tiff", alpha.convert("LA"), "TIFF")
    save("CMYK.tiff", rgb.convert("CMYK"), "TIFF")
    save("I16.tiff", Image.fromarray(pattern(61, 47)[..., 0].astype(numpy.uint16) * 9), "TIFF")
    save("predictor.tiff", rgb, "TIFF", compression="tiff_lzw", tiffinfo={317: 2})
    save("big-endian.tiff", rgb, "TIFF")
    exif = Image.Exif()
    exif[0x0112] = 8
    save("exif-8.tiff", rgb, "TIFF", exif=exif)
    save("pages.tiff", rgb, "TIFF", save_all=True, append_images=[noise])
    save("frames.gif", few, "GIF", save_all=True, append_images=[few.transpose(0)])
    save("interlaced.gif", few, "GIF", interlace=1)
    save("transparent.gif", few, "GIF", transparency=3)
    save("lossless.webp", noise, "WEBP", lossless=True)
    save("lossless-alpha.webp", alpha, "WEBP", lossless=True, exact=True)
    save("lossless-exif-3.webp", noise, "WEBP", lossless=True, exif=orientation(3))
    save("lossless-frames.webp", noise, "WEBP", lossless=True, save_all=True, append_images=[rgb])
    save("lossy.webp", rgb, "WEBP", quality=80)
    save("lossy-alpha.webp", alpha, "WEBP", quality=80)
    found["16-bits-555.bmp"] = bmp(16, 0)
    found["16-bits-565.bmp"] = bmp(16, 3, (0xF800, 0x07E0, 0x001F))
    found["32-bits-rgba.bmp"] = bmp(32, 3, (0xFF, 0xFF00, 0xFF0000))
    found["32-bits-top-down.bmp"] = bmp(32, 0, height=-7)
    found["4-bits.bmp"] = bmp(4, 0, colours=16)
    found["1-bit.bmp"] = bmp(1, 0, colours=2)
    found["4-bits-few-colours.bmp"] = bmp(4, 0, colours=5)
    found["8-bits-runs.bmp"] = bmp(8, 1, colours=256, data=RUNS_OF_8)
    found["4-bits-runs.bmp"] = bmp(4, 2, colours=16, data=RUNS_OF_4)
    # A frame that is smaller than its screen, with a palette of its own.
    found["small-frame.gif"] = small_frame()
    return found


def orientation(number):
    exif = Image.Exif()
    exif[0x0112] = number
    return exif


# 9 x 7: runs, indices one by one, ends of lines, a jump, a run that is longer than its row.
RUNS_OF_8 = bytes.fromhex(
    "0905 0000  0307 0003 01020300 0309 0000  0002 0201 04c8 0000  0004 08090a0b 0501 0000  094d 0000  1403 0000 0001"
)
RUNS_OF_4 = bytes.fromhex(
    "095a 0000  0370 0006 12345600 0000  0002 0201 04c3 0000  0005 12345000 049a 0000  0911 0000  092f 0001"
)


def bmp(bits, compression, masks=(), height=7, colours=0, data=None):
    width = 9
    line = (width * bits + 31) // 32 * 4
    if data is None:
        data = bytes((x * 31 + y * 17 + (x * y)) & 255 for y in range(abs(height)) for x in range(line))
    extra = struct.pack("<III", *masks) if masks else b""
    extra += bytes((it * 11 + 5) & 255 for it in range(colours * 4))
    begin = 14 + 40 + len(extra)
    head = struct.pack("<IiiHHIIiiII", 40, width, height, 1, bits, compression, len(data), 0, 0, colours, 0)
    return b"BM" + struct.pack("<IHHI", begin + len(data), 0, 0, begin) + head + extra + data


def small_frame():
    out = io.BytesIO()
    inner = Image.fromarray(smooth(11, 6)).quantize(7)
    inner.save(out, "GIF")
    data = bytearray(out.getvalue())
    at = data.index(b"\x2c", 13)
    data[6:10] = struct.pack("<HH", 20, 15)
    data[at + 1 : at + 5] = struct.pack("<HH", 4, 5)
    return bytes(data)


def decoded(files):
    cases = []
    for name, data in sorted(files.items()):
        (FILES / name).write_bytes(data)
        case = {"file": name}
        try:
            image = numpy.array(ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB"))
        except Exception as error:
            print(f"{name}: {error}")
            (FILES / name).unlink()
            continue
        case |= {"size": [image.shape[1], image.shape[0]], "md5": digest(image)}
        if name.startswith("lossy") or name.endswith(".jpg") and max(image.shape) > 40:
            case["mean"] = float(image.mean())
        cases.append(case)
    return cases


def main():
    FILES.mkdir(parents=True, exist_ok=True)
    for it in FILES.iterdir():
        it.unlink()
    names = {"pillow": PIL, "opencv": cv2, "torchvision": torchvision, "transformers": transformers, "timm": timm}
    golden = {
        "versions": {name: it.__version__ for name, it in names.items()}
        | {"libjpeg-turbo": features.version_feature("libjpeg_turbo")},
        "resized": resized(),
        "opencv": resized_by_opencv(),
        "processors": processors(),
        "torchvision": torchvisions(),
        "letterboxed": letterboxed(),
        "classified": classified(),
        "jpegs": decoded(jpegs()),
        "others": decoded(pngs() | others()),
    }
    # Lossy WebP decodes a little differently elsewhere, and JPEG without libjpeg-turbo: what Pillow sees goes along.
    for name in ["lossy.webp", "lossy-alpha.webp", "420-q75.jpg", "444-q75.jpg", "420-progressive.jpg", "cmyk.jpg", "grey.jpg"]:
        Image.open(FILES / name).convert("RGB").save(FILES / f"{name}.expected.png", optimize=True)
    for name, cases in golden.items():
        lines = json.dumps(cases, indent=None) if name == "versions" else ",\n".join(json.dumps(it) for it in cases)
        text = lines if name == "versions" else f"[\n{lines}\n]"
        (FOLDER / f"{name}.json").write_text(text + "\n")
    print({name: len(cases) for name, cases in golden.items()})


if __name__ == "__main__":
    main()
