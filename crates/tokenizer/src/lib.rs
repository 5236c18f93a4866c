//! Text to ids and back, from the vocabulary in the metadata
