//! The families, one file each.

mod apertus;
mod cohere;
mod command_r;
mod deepseek;
mod deepseek_dsml;
mod firefunction;
mod functionary;
mod functionary_tagged;
mod gemma4;
mod gigachat;
mod glm;
mod gpt_oss;
mod granite;
mod harmony;
mod hermes;
mod hy3;
mod kimi_k2;
mod kimi_k3;
mod lfm2;
mod llm_jp;
mod minicpm5;
mod minimax_m2;
mod minimax_m3;
mod mistral_list;
mod mistral_named;
mod muse;
mod nemotron;
mod python_tag;
mod qwen3_coder;
mod seed_oss;
mod solar;
mod tool_calls;

use super::Family;

/// Every family; a template is of the first one that it shows the marks of.
pub static FAMILIES: &[&Family] = &[
    &mistral_named::FAMILY,
    &mistral_list::FAMILY,
    &llm_jp::FAMILY,
    &gpt_oss::FAMILY,
    &muse::FAMILY,
    &functionary::FAMILY,
    &kimi_k2::FAMILY,
    &kimi_k3::FAMILY,
    &hy3::FAMILY,
    &glm::FAMILY,
    &cohere::FAMILY,
    &lfm2::FAMILY,
    &gigachat::FAMILY,
    &minimax_m3::FAMILY,
    &minimax_m2::FAMILY,
    &deepseek_dsml::FAMILY,
    &gemma4::FAMILY,
    &minicpm5::FAMILY,
    &seed_oss::FAMILY,
    &qwen3_coder::FAMILY,
    &functionary_tagged::FAMILY,
    &deepseek::FAMILY,
    &nemotron::FAMILY,
    &apertus::FAMILY,
    &solar::FAMILY,
    &firefunction::FAMILY,
    &granite::FAMILY,
    &tool_calls::FAMILY,
    &hermes::FAMILY,
    &command_r::FAMILY,
    &python_tag::FAMILY,
];
