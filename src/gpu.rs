//! The reference's flags for GPU backends. They are accepted so that command lines carry over; one line says that
//! they change nothing in this build.

/// Flags of `cli.md` 1 that place work on devices; flatten them into a command that runs a model.
#[derive(clap::Args)]
#[command(next_help_heading = "GPU options (accepted; no GPU backend is built in)")]
pub struct GpuFlags {
    /// Layers to keep on the GPU
    #[arg(long, alias = "n-gpu-layers", value_name = "N|auto|all", value_parser = layers)]
    gpu_layers: Option<String>,
    /// Devices to use
    #[arg(long, value_name = "NAME,…|none")]
    device: Option<String>,
    /// How to split the model over GPUs
    #[arg(long, value_name = "none|layer|row|tensor", value_parser = ["none", "layer", "row", "tensor"], hide_possible_values = true)]
    split_mode: Option<String>,
    /// Proportions of that split
    #[arg(long, value_name = "N,…")]
    tensor_split: Option<String>,
    /// The GPU for what is not split
    #[arg(long, value_name = "INDEX", value_parser = whole)]
    main_gpu: Option<String>,
    /// Which tensors go to which buffer
    #[arg(long, value_name = "REGEX=BUFFER,…")]
    override_tensor: Option<String>,
    /// Expert weights on the CPU
    #[arg(long)]
    cpu_moe: bool,
    /// Expert weights of the first N layers on the CPU
    #[arg(long, value_name = "N", value_parser = whole)]
    n_cpu_moe: Option<String>,
    /// Feed-forward weights of the first N layers on the CPU
    #[arg(long, value_name = "N", value_parser = whole)]
    n_cpu_ffn: Option<String>,
    /// Fit unset arguments to the device's memory
    #[arg(long, value_name = "on|off", value_parser = ["on", "off"], hide_possible_values = true)]
    fit: Option<String>,
    /// Memory to leave free per device
    #[arg(long, value_name = "MiB,…")]
    fit_target: Option<String>,
    /// Smallest context that fitting may choose
    #[arg(long, value_name = "N", value_parser = whole)]
    fit_ctx: Option<String>,
    /// KV cache on the GPU
    #[arg(long)]
    kv_offload: bool,
    /// KV cache in main memory
    #[arg(long)]
    no_kv_offload: bool,
}

/// A number of layers, as text.
pub fn layers(text: &str) -> Result<String, String> {
    match ["auto", "all"].contains(&text) {
        true => Ok(text.to_owned()),
        false => whole(text).map_err(|_| "it must be a whole number, auto or all".to_owned()),
    }
}

/// A whole number, as text.
fn whole(text: &str) -> Result<String, String> {
    match text.parse::<i32>() {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err("it must be a whole number".to_owned()),
    }
}

impl GpuFlags {
    /// Says on standard error that a flag which asks for a GPU changes nothing; silent where none does.
    pub fn note(&self) {
        let asks = [
            &self.split_mode,
            &self.tensor_split,
            &self.main_gpu,
            &self.override_tensor,
            &self.n_cpu_moe,
        ]
        .into_iter()
        .chain([&self.n_cpu_ffn, &self.fit, &self.fit_target, &self.fit_ctx])
        .any(Option::is_some)
            || self
                .gpu_layers
                .as_deref()
                .is_some_and(|layers| layers != "0")
            || self
                .device
                .as_deref()
                .is_some_and(|device| device != "none")
            || self.cpu_moe
            || self.kv_offload
            || self.no_kv_offload;
        if asks {
            say!(
                "note: no GPU backend is built in; the GPU flags change nothing, everything runs on the CPU"
            );
        }
    }
}
