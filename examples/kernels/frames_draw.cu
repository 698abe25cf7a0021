// The same image as frames.c's kernel, which draws a band of rows in every block,
// out of other work: a thread takes every so many dots. Where two meet in a pixel
// the order makes no difference.
typedef unsigned int word;

static const int WIDTH = 640, HEIGHT = 360;

struct dot { short x, y; word light; };

static __device__ word lightened(word pixel, word light) {
    word sum = 0;
    #pragma unroll 1 // keeps the text short
    for (int shift = 0; shift < 24; shift += 8) {
        sum |= min((pixel >> shift & 255) + (light >> shift & 255), 255) << shift;
    }
    return sum;
}

static __device__ void lighten(word *image, int x, int y, word light) {
    if (x < 0 || x >= WIDTH || y < 0 || y >= HEIGHT) {
        return;
    }
    word *pixel = &image[y * WIDTH + x], old = *pixel, seen;
    do {
        seen = old;
        old = atomicCAS(pixel, seen, lightened(seen, light));
    } while (old != seen);
}

extern "C" __global__ void draw(word *image, const dot *dots, word count) {
    word threads = gridDim.x * blockDim.x;
    for (word i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += threads) {
        dot d = dots[i];
        #pragma unroll 1
        for (int k = 0; k < 5; k++) { // itself, left, right, above, below
            int side = k % 2 * 2 - 1;
            int dx = k == 1 || k == 2 ? side : 0, dy = k > 2 ? side : 0;
            lighten(image, d.x + dx, d.y + dy, d.light);
        }
    }
}
