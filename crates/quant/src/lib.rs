//! What a block's bytes mean: id, name, size, decode, encode and plain dot of every tensor type
