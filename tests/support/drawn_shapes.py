"""Pictures of shapes, with what is on them."""

import numpy as np


def shapes(count: int, seed: int, size: int = 24) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Noisy pictures of a square and a disc.

    Returns:
        Images [count, size, size, 1]; the class of each pixel, 0 for the ground, 1 for the square
        and 2 for the disc; and the corners of both shapes, [count, 2, 4], as shares of the image.
    """
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[:size, :size]
    images = np.zeros((count, size, size), np.float32)
    masks = np.zeros((count, size, size), np.int32)
    corners = np.zeros((count, 2, 4), np.float32)
    for index in range(count):
        for shape in range(2):
            half = rng.integers(2, 5)
            centre_row = rng.integers(half, size - half)
            # One shape to the left, one to the right: they never overlap.
            low, high = (half, size // 2 - half) if shape == 0 else (size // 2 + half, size - half)
            centre_column = rng.integers(low, max(low + 1, high))
            down, right = np.abs(rows - centre_row), np.abs(columns - centre_column)
            inside = (down < half) & (right < half) if shape == 0 else down**2 + right**2 < half**2
            images[index][inside] = rng.uniform(0.5, 1)
            masks[index][inside] = 1 + shape
            box = centre_row - half, centre_column - half, centre_row + half, centre_column + half
            corners[index, shape] = np.array(box) / size
    images += 0.1 * rng.standard_normal(images.shape).astype(np.float32)
    return images[..., None], masks, corners
