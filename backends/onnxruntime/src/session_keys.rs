//! The keys that ONNX Runtime itself reads (`onnxruntime_session_options_config_keys.h` of 1.31), by list: a key that
//! is not known is a slip, or one that nobody has looked at. Pure.

use std::collections::BTreeMap;

use backend::BackendError;

use crate::provider::nearest;

/// Keys with these beginnings are ONNX Runtime's.
const BEGINNINGS: [&str; 4] = ["session.", "optimization.", "ep.", "mlas."];

/// Those whose value is a number or a word.
const PLAIN: [&str; 55] = [
    "ep.context_embed_mode",
    "ep.context_enable",
    "ep.context_node_name_prefix",
    "ep.cuda.fpa_intb_gemm",
    "ep.cuda.fpa_intb_profile_m",
    "ep.cuda.gqa_workspace_max_total_sequence_length",
    "ep.dynamic.workload_type",
    "ep.enable_weightless",
    "ep.share_ep_contexts",
    "ep.stop_share_ep_contexts",
    "mlas.disable_kleidiai",
    "mlas.enable_gemm_fastmath_arm64_bfloat16",
    "mlas.kleidiai.conv_igemm_max_work",
    "mlas.nchwc_depthwise_sliding",
    "mlas.nchwc_pointwise_conv_max_input_channel_batch",
    "mlas.qnbit.force_fp32",
    "mlas.use_lut_gemm",
    "optimization.constant_folding_max_output_size_in_bytes",
    "optimization.disable_specified_optimizers",
    "optimization.enable_cast_chain_elimination",
    "optimization.enable_gelu_approximation",
    "optimization.minimal_build_optimizations",
    "session.allow_released_opsets_only",
    "session.debug_layout_transformation",
    "session.disable_aot_function_inlining",
    "session.disable_cpu_ep_fallback",
    "session.disable_double_qdq_remover",
    "session.disable_model_compile",
    "session.disable_prepacking",
    "session.disable_qdq_constant_folding",
    "session.disable_quant_qdq",
    "session.dynamic_block_base",
    "session.enable_dq_matmulnbits_fusion",
    "session.enable_quant_qdq_cleanup",
    "session.fail_on_suboptimal_compiled_model",
    "session.force_spinning_stop",
    "session.function_expansion_byte_limit",
    "session.function_expansion_node_limit",
    "session.graph_optimizations_loop_level",
    "session.inter_op.allow_spinning",
    "session.inter_op.spin_backoff_max",
    "session.inter_op.spin_duration_us",
    "session.intra_op.allow_spinning",
    "session.intra_op.spin_backoff_max",
    "session.intra_op.spin_duration_us",
    "session.intra_op_thread_affinities",
    "session.prepack.enable_parallel",
    "session.qdq_matmulnbits_accuracy_level",
    "session.qdq_matmulnbits_block_size",
    "session.qdqisint8allowed",
    "session.set_denormal_as_zero",
    "session.strict_shape_type_inference",
    "session.use_device_allocator_for_initializers",
    "session.use_env_allocators",
    "session.x64quantprecision",
];

/// Settings that name files of the server, or say how what lies there is read or written. First ONNX Runtime's own,
/// then those of TensorRT, under both of their names.
pub(crate) const SETTINGS_OF_FILES: [&str; 42] = [
    "ep.context_file_path",
    "ep.context_model_external_initializers_file_name",
    "session.collect_node_memory_stats_to_file",
    "session.layer_assignment_settings",
    "session.load_model_format",
    "session.model_external_initializers_file_folder_path",
    "session.moe_expert_counter_state_file",
    "session.node_partition_config_file",
    "session.optimized_model_external_initializers_file_name",
    "session.optimized_model_external_initializers_min_size_in_bytes",
    "session.optimized_model_filepath",
    "session.resource_cuda_partitioning_settings",
    "session.save_external_prepacked_constant_initializers",
    "session.save_model_format",
    "session.use_ort_model_bytes_directly",
    "session.use_ort_model_bytes_for_initializers",
    "dump_ep_context_model",
    "dump_subgraphs",
    "engine_cache_enable",
    "engine_cache_path",
    "engine_cache_prefix",
    "engine_decryption_enable",
    "engine_decryption_lib_path",
    "ep_context_file_path",
    "extra_plugin_lib_paths",
    "int8_calibration_table_name",
    "onnx_model_folder_path",
    "timing_cache_enable",
    "timing_cache_path",
    "trt_dump_ep_context_model",
    "trt_dump_subgraphs",
    "trt_engine_cache_enable",
    "trt_engine_cache_path",
    "trt_engine_cache_prefix",
    "trt_engine_decryption_enable",
    "trt_engine_decryption_lib_path",
    "trt_ep_context_file_path",
    "trt_extra_plugin_lib_paths",
    "trt_int8_calibration_table_name",
    "trt_onnx_model_folder_path",
    "trt_timing_cache_enable",
    "trt_timing_cache_path",
];

/// Those of a model's settings that go to ONNX Runtime as they are. `ours` is one of this server that begins alike.
///
/// # Errors
/// [`BackendError::Load`] with the nearest name, for one that is not known.
pub(crate) fn passed_on(
    options: &BTreeMap<String, String>,
    ours: &str,
) -> Result<BTreeMap<String, String>, BackendError> {
    let is_runtimes = |key: &str| key != ours && BEGINNINGS.iter().any(|it| key.starts_with(it));
    let given = options.iter().filter(|(key, _)| is_runtimes(key));
    let known = || PLAIN.iter().chain(&SETTINGS_OF_FILES).filter(|it| is_runtimes(it)).copied();
    given
        .map(|(key, value)| match known().any(|it| it == key) {
            true => Ok((key.clone(), value.clone())),
            false => {
                let known: Vec<&str> = known().collect();
                let hint = match nearest(key, &known) {
                    Some(near) => format!("did you mean {near}?"),
                    None => format!("expected one of {}", known.join(", ")),
                };
                Err(BackendError::Load(format!("parameter {key} is not known; {hint}")))
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(key: &str) -> Result<BTreeMap<String, String>, String> {
        let options = BTreeMap::from([(key.to_owned(), "1".to_owned())]);
        passed_on(&options, "optimization.graph.level").map_err(|it| it.to_string())
    }

    #[test]
    fn keys_of_the_runtime_are_passed_on_by_list_and_foreign_ones_left_alone() {
        for key in ["session.disable_prepacking", "session.node_partition_config_file"] {
            assert!(read(key).unwrap().contains_key(key));
        }
        for key in ["team", "optimization.graph.level", "engine_cache_path"] {
            assert_eq!(read(key), Ok(BTreeMap::new()));
        }
    }

    #[test]
    fn a_key_that_is_not_known_is_refused_with_the_nearest() {
        let told = "parameter session.disable_prepaking is not known; did you mean session.disable_prepacking?";
        assert!(read("session.disable_prepaking").unwrap_err().ends_with(told));
        let text = read("session.x").unwrap_err();
        assert!(text.contains("expected one of ep.context_embed_mode, "), "{text}");
    }
}
