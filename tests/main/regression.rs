//! Bad input and past faults, named after their cases.
