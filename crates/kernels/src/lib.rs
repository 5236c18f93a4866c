//! CPU detection, compute kernels per instruction set beside their plain twins, and the thread pool
