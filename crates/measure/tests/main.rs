//! Checks of model files: every code planted, golden files clean, nothing falls over hostile ones.

#[path = "main/faults.rs"]
mod faults;
#[path = "main/golden.rs"]
mod golden;
#[path = "main/hostile.rs"]
mod hostile;
#[path = "main/model.rs"]
mod model;
#[path = "main/planted.rs"]
mod planted;
