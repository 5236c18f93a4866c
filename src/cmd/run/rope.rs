//! Flags about rotation, which go before what the file says.

use gristmill_engine::{RopeOverrides, RopeScalingKind};

use crate::numbers;

/// Numbers beyond this are mistakes.
const FACTOR_MAX: f32 = 1e6;
const BASE_MAX: f32 = 1e12;

#[derive(clap::Args)]
#[command(next_help_heading = "Rotary positions; without a flag the file decides")]
pub struct RopeFlags {
    /// How positions are stretched beyond the context of the training
    #[arg(long, value_name = "none|linear|yarn")]
    rope_scaling: Option<Scaling>,
    /// By how much the context is stretched; 0 leaves it to the file
    #[arg(long, value_name = "N", value_parser = numbers::real(0.0..=FACTOR_MAX), overrides_with = "rope_freq_scale")]
    rope_scale: Option<f32>,
    /// The same as a factor on the frequencies: 1 / N
    #[arg(long, value_name = "N", value_parser = numbers::real(0.0..=FACTOR_MAX), overrides_with = "rope_scale")]
    rope_freq_scale: Option<f32>,
    /// Base of the frequencies; 0 leaves it to the file
    #[arg(long, value_name = "N", value_parser = numbers::real(0.0..=BASE_MAX))]
    rope_freq_base: Option<f32>,
    /// YaRN: context of the training before it was stretched; 0 leaves it to the file
    #[arg(long, value_name = "N", value_parser = numbers::count(0..=u32::MAX as usize))]
    yarn_orig_ctx: Option<usize>,
    /// YaRN: share of extrapolation, 0 for full interpolation; -1 leaves it to the file
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = numbers::real(-1.0..=FACTOR_MAX))]
    yarn_ext_factor: Option<f32>,
    /// YaRN: factor on sines and cosines; -1 leaves it to the file
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = numbers::real(-1.0..=FACTOR_MAX))]
    yarn_attn_factor: Option<f32>,
    /// YaRN: rotations below which frequencies are divided; -1 leaves it to the file
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = numbers::real(-1.0..=FACTOR_MAX))]
    yarn_beta_slow: Option<f32>,
    /// YaRN: rotations above which frequencies are kept; -1 leaves it to the file
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = numbers::real(-1.0..=FACTOR_MAX))]
    yarn_beta_fast: Option<f32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Scaling {
    None,
    Linear,
    Yarn,
}

impl RopeFlags {
    pub fn overrides(&self) -> RopeOverrides {
        let positive = |number: Option<f32>| number.filter(|&number| number > 0.0);
        let stated = |number: Option<f32>| number.filter(|&number| number >= 0.0);
        RopeOverrides {
            scaling: self.rope_scaling.map(|scaling| match scaling {
                Scaling::None => RopeScalingKind::None,
                Scaling::Linear => RopeScalingKind::Linear,
                Scaling::Yarn => RopeScalingKind::Yarn,
            }),
            freq_base: positive(self.rope_freq_base),
            freq_scale: positive(self.rope_freq_scale)
                .or(positive(self.rope_scale).map(|factor| 1.0 / factor)),
            original_context: self.yarn_orig_ctx.filter(|&length| length > 0),
            extrapolation_factor: stated(self.yarn_ext_factor),
            magnitude: stated(self.yarn_attn_factor),
            // Neither can be 0: a pair turns so often over the context.
            beta_fast: positive(self.yarn_beta_fast),
            beta_slow: positive(self.yarn_beta_slow),
        }
    }
}
