#include "photo.cuh"

struct picture { const byte *pixels; word width, rows; };

// A byte that the compiler makes no instruction of sm_61 with.
static __device__ int plain(byte value) {
    int number = value;
    asm("" : "+r"(number));
    return number;
}

// Brightness.
static __device__ int grey(const byte *rgb) {
    return (77 * plain(rgb[0]) + 150 * plain(rgb[1]) + 29 * plain(rgb[2])) / 256;
}

static __device__ word square_root(word n) {
    word root = 0;
    ONE_BY_ONE
    for (word bit = 1u << 15; bit > 0; bit >>= 1) {
        word next = root | bit;
        root = next * next <= n ? next : root;
    }
    return root;
}

// Sobel's magnitude, at most 255: each of the nine around (x, y) by its weights,
// which are -1, 0, 1 across, times 1, 2, 1 along the edge.
static __device__ word edge_at(const picture &p, word x, word y) {
    int gx = 0, gy = 0;
    ONE_BY_ONE
    for (int i = 0; i < 9; i++) {
        int dx = i % 3, dy = i / 3;
        word row = near_index(y, dy, 1, p.rows), column = near_index(x, dx, 1, p.width);
        int light = grey(p.pixels + (row * p.width + column) * RGB);
        gx += (dx - 1) * (1 + (dy & 1)) * light;
        gy += (dy - 1) * (1 + (dx & 1)) * light;
    }
    return min(square_root(gx * gx + gy * gy), 255);
}

KERNEL(ink)(byte *dst, const byte *src, word width, word rows, word skip) {
    word x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    picture p = { src, width, rows };
    if (x < width) {
        word from = ((y + skip) * width + x) * RGB, to = (y * width + x) * RGB;
        word light = 255 - edge_at(p, x, y + skip);
        ONE_BY_ONE
        for (word c = 0; c < RGB; c++) {
            dst[to + c] = (byte)(src[from + c] * light / 255);
        }
    }
}
