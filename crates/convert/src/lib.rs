//! Checkpoint in, GGUF out: import of weights, configuration and tokenizers; recipes; quantization
