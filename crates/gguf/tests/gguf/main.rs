//! Tests of the container: golden files, cases from real use, hostile files, shards, writing.

mod bytes;
mod comparing;
mod editing;
mod editing_random;
mod golden;
mod hashing;
mod hostile;
mod hostile_files;
mod imatrix;
mod kinds;
mod metadata;
mod resuming;
mod runs;
mod shards;
mod small_disk;
mod splitting;
mod structure;
mod summary;
mod survey;
mod turning;
mod writing;
