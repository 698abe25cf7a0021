// What the kernels of digits.c share. They are compiled so that no two operations
// are made one (--fmad=false): a device comes to the numbers of the CPU.
#define KERNEL(name) extern "C" __global__ void name
#define ONE_BY_ONE _Pragma("unroll 1") // before a loop: keeps the text short

typedef unsigned int word;

static const word PIXELS = 64, HIDDEN = 64, DIGITS = 10, BATCH = 30;

struct sample { float pixel[PIXELS]; word label; };
struct score { float loss; word right; };
struct hidden_unit { float weight[PIXELS], bias; };
struct output_unit { float weight[HIDDEN], bias; };
