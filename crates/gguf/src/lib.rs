//! The GGUF container: read, validate, write, split
