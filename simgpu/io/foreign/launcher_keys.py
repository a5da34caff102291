"""Options of programs that start jobs which change neither time nor memory of a step.

pytorch/pytorch torch/distributed/run.py and launch.py; deepspeedai/DeepSpeed deepspeed/launcher/runner.py;
huggingface/accelerate src/accelerate/commands/launch.py; mosaicml/composer composer/cli/launcher.py; the manuals of
Slurm's srun (with NVIDIA/pyxis), Open MPI's, MPICH's and PALS' mpirun, Cray's aprun, IBM's jsrun, LLNL's lrun, Flux;
horovod/horovod horovod/runner/launch.py.
"""

from __future__ import annotations

from typing import Final

_TORCHRUN: Final = (
    "nnodes", "nproc_per_node", "nproc", "n", "rdzv_backend", "rdzv_endpoint", "rdzv_id", "rdzv_conf", "standalone",
    "max_restarts", "monitor_interval", "start_method", "event_log_handler", "role", "m", "module", "no_python",
    "run_path", "log_dir", "r", "redirects", "t", "tee", "local_ranks_filter", "node_rank", "master_addr",
    "master_port", "local_addr", "logs_specs", "numa_binding", "signals_to_handle", "duplicate_stdout_filters",
    "duplicate_stderr_filters", "virtual_local_rank", "use_env", "use-env", "world_size", "base_rank", "stdout",
    "stderr", "v", "verbose",
)  # fmt: skip
_DEEPSPEED: Final = (
    "hostfile", "H", "num_nodes", "num_gpus", "min_elastic_nodes", "max_elastic_nodes", "launcher", "launcher_args",
    "no_local_rank", "no_ssh", "no_ssh_check", "force_multi", "save_pid", "enable_each_rank_log", "autotuning",
    "elastic_training", "venv_script", "bind_cores_to_rank", "bind_core_list", "ssh_port",
)  # fmt: skip
_ACCELERATE: Final = (
    "quiet", "q", "multi_gpu", "num_processes", "num_machines", "num_cpu_threads_per_process", "enable_cpu_affinity",
    "dynamo_mode", "dynamo_use_fullgraph", "dynamo_use_dynamic", "dynamo_use_regional_compilation", "use_deepspeed",
    "use_fsdp", "use_megatron_lm", "use_parallelism_config", "gpu_ids", "same_network", "machine_rank",
    "main_process_ip", "main_process_port", "main_training_function", "debug", "gradient_clipping", "zero3_init_flag",
    "zero3_save_16bit_model", "offload_optimizer_nvme_path", "offload_param_nvme_path", "deepspeed_hostfile",
    "deepspeed_exclusion_filter", "deepspeed_inclusion_filter", "deepspeed_multinode_launcher",
    "deepspeed_moe_layer_cls_names", "megatron_lm_gradient_clipping", "fp8_use_autocast_during_eval", "fp8_margin",
    "fp8_interval", "fp8_format", "fp8_amax_history_len", "fp8_amax_compute_algo", "mpirun_hostfile", "mpirun_ccl",
    "i", "downcast_bf16", "env", "vm", "tpu_use_sudo", "parallelism_config_cp_backend", "parallelism_config_sp_backend",
    "parallelism_config_sp_seq_length", "parallelism_config_sp_seq_length_is_variable",
    "parallelism_config_sp_attn_implementation",
)  # fmt: skip
_SRUN: Final = (
    "A", "account", "acctg_freq", "bcast", "begin", "bell", "clusters", "comment", "compress", "C", "constraint",
    "container", "contiguous", "core_spec", "cores_per_socket", "cpu_bind", "cpu_freq", "cpus_per_gpu",
    "cpus_per_task", "D", "chdir", "deadline", "delay_boot", "d", "dependency", "m", "distribution", "epilog", "e",
    "error", "exact", "x", "exclude", "exclusive", "export", "gid", "gpu_bind", "gpu_freq", "G", "gpus",
    "gpus_per_node", "gpus_per_socket", "gpus_per_task", "gres", "gres_flags", "hint", "hold", "I", "immediate", "i",
    "input", "interactive", "jobid", "J", "job_name", "K", "kill_on_bad_exit", "l", "label", "L", "licenses",
    "mail_type", "mail_user", "mem", "mem_bind", "mem_per_cpu", "mem_per_gpu", "mincpus", "mpi", "msg_timeout",
    "multi_prog", "network", "nice", "nodefile", "w", "nodelist", "no_kill", "k", "ntasks_per_core", "ntasks_per_gpu",
    "ntasks_per_socket", "open_mode", "o", "output", "O", "overcommit", "overlap", "s", "oversubscribe", "p",
    "partition", "power", "prefer", "priority", "profile", "prolog", "propagate", "pty", "q", "qos", "Q", "quiet",
    "reboot", "r", "relative", "reservation", "resv_ports", "send_libs", "signal", "sockets_per_node", "spread_job",
    "switches", "task_epilog", "task_prolog", "threads_per_core", "t", "time", "time_min", "tmp", "tres_per_task",
    "u", "unbuffered", "use_min_nodes", "v", "verbose", "W", "wait", "wckey", "whole", "container_image",
    "container_mounts", "container_name", "container_workdir", "container_writable", "container_remap_root",
    "container_env", "no_container_mount_home", "container_mount_home", "no_container_entrypoint", "container_save",
    "no_container_remap_root", "container_readonly",
)  # fmt: skip
_MPIRUN: Final = (
    "hostfile", "machinefile", "f", "rankfile", "rf", "rank_by", "bind_to", "bind_to_core", "bind_to_none",
    "report_bindings", "mca", "gmca", "omca", "prtemca", "pmixmca", "x", "genvall", "genvnone", "genvlist", "iface",
    "bootstrap", "launcher", "allow_run_as_root", "tag_output", "timestamp_output", "output_filename", "output",
    "oversubscribe", "nooversubscribe", "display_map", "display_allocation", "display", "prefix", "noprefix", "quiet",
    "wdir", "wd", "bynode", "byslot", "cpu_set", "cpu_list", "merge_stderr_to_stdout", "stdin", "path", "tune", "am",
    "npersocket", "cpus_per_proc", "nolocal", "use_hwthread_cpus", "print_all_exitcodes", "prepend_rank", "rr",
    "start_timeout", "gloo", "fusion_threshold_mb", "cycle_time_ms", "timeline_filename", "network_interface",
    "ssh_port", "tcp", "hosts", "depth", "cc", "line_buffer", "envall", "envnone", "envlist",
    "no_transfer", "rank_order", "S", "b", "d", "j",
)  # fmt: skip
_JSRUN: Final = (
    "b", "bind", "c", "cpu_per_rs", "d", "launch_distribution", "l", "latency_priority", "M", "smpiargs", "E", "env",
    "env_no_propagate", "env_eval", "stdio_stdout", "stdio_stderr", "stdio_mode", "k", "o", "X", "exit_on_error",
    "K", "rs_per_socket", "m", "memory_per_rs", "progress", "chdir", "gpus_per_set", "nolbind", "pack", "mpibind",
    "cores_per_task", "g",
)  # fmt: skip
LAUNCHER: Final = (*_TORCHRUN, *_DEEPSPEED, *_ACCELERATE)
WRAPPER: Final = tuple(dict.fromkeys((*_SRUN, *_MPIRUN, *_JSRUN)))
COUNTS: Final = ("tasks", "per_node", "nodes", "hosts", "map_by", "sets", "sets_per_node", "tasks_per_set")
"""Of what starts a launcher that counts by itself."""
