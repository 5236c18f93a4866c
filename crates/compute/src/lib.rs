//! Tensor handles, the op graph, its placement and memory plan, backends
