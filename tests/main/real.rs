//! Downloaded models; these tests are ignored unless asked for, since the models are not in the repository.
