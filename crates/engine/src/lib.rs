//! A loaded model: KV cache, batches, sampling, chat templates
