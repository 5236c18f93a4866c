//! The whole chain from checkpoint to release folder, with its manifest
