//! Architectures: names, hyperparameters, tensor tables and graphs
