//! The eBPF object: one thin program a hook, one shared accounting module.
//!
//! Program names are `<hook>_<method>`: `_btf`, `_raw`, `_tp` for tracepoints, `_fentry`/`_fexit`
//! and `_kprobe`/`_kretprobe` for functions. The loader loads only those that the plan names.
#![no_std]
#![no_main]
#![expect(
    clippy::needless_borrows_for_generic_args,
    reason = "map values passed by value would be copied onto the 512-byte stack"
)]

mod account;
mod charge;
mod clock;
mod config;
mod context;
mod filter;
mod identity;
mod maps;
mod owner;
mod probes;
mod sample;
mod stack;
mod switches;
mod waiter;

#[cfg(not(test))]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
