/* declarations.h - hcq.h without its implementation. */
#undef HCQ_IMPLEMENTATION
#include "../../hcq.h"
