"""What one writes by hand around a detector: OpenCV and NumPy."""

import cv2
import numpy as np

cv2.setNumThreads(1)


def letterbox(data, side):
    """The file of an image as `[1, 3, side, side]`, and what leads back: the scale, and columns and rows of grey."""
    image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    height, width = image.shape[:2]
    scale = min(side / height, side / width)
    to = round(width * scale), round(height * scale)
    image = cv2.resize(image, to, interpolation=cv2.INTER_LINEAR)
    left, top = (round((side - it) / 2 - 0.1) for it in to)
    right, bottom = side - to[0] - left, side - to[1] - top
    image = cv2.copyMakeBorder(image, top, bottom, left, right, cv2.BORDER_CONSTANT, value=(114, 114, 114))
    pixels = np.ascontiguousarray(image[..., ::-1].transpose(2, 0, 1)[None]).astype(np.float32)
    pixels /= 255
    return pixels, (scale, left, top, width, height)


def boxes(output, back, confidence=0.25, iou=0.7):
    """Class, score and corners of what was found, best first."""
    scale, left, top, width, height = back
    rows = output[0]
    scores = rows[4:].max(0)
    kept = np.flatnonzero(scores > confidence)
    classes, scores = rows[4:, kept].argmax(0), scores[kept]
    x, y, w, h = rows[:4, kept]
    corners = np.stack([x - w / 2, y - h / 2, w, h], 1)
    chosen = cv2.dnn.NMSBoxesBatched(corners.tolist(), scores.tolist(), classes.tolist(), confidence, iou)
    chosen = np.asarray(chosen, np.int64)[:300]
    corners[:, 2:] += corners[:, :2]
    corners = (corners - [left, top, left, top]) / scale
    corners = np.clip(corners, 0, [width, height, width, height])
    return [(int(classes[it]), float(scores[it]), corners[it].tolist()) for it in chosen]
