//! Quotients of integers that do not fit their type: the least number by minus one. x86 has a fault for them, which
//! ends the process; native code of engines divides what clients send. Here they are the least number again and leave
//! no rest, as on ARM and in NumPy.

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod division;

/// Has such a division go on with the least number. Other faults of arithmetic end the process, as without it. To be
/// called before models are loaded.
pub fn wrap_quotients() {
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    handler::install();
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod handler {
    use std::{ffi::c_void, mem::zeroed, ptr::null_mut};

    use super::division::{Division, GENERAL, RAX, RDX};

    /// Where a signal says that an integer was divided by zero, or its quotient does not fit.
    const FPE_INTDIV: i32 = 1;

    /// General registers of a context, in the order in which instructions number them.
    const REGISTERS: [i32; GENERAL] = [
        libc::REG_RAX,
        libc::REG_RCX,
        libc::REG_RDX,
        libc::REG_RBX,
        libc::REG_RSP,
        libc::REG_RBP,
        libc::REG_RSI,
        libc::REG_RDI,
        libc::REG_R8,
        libc::REG_R9,
        libc::REG_R10,
        libc::REG_R11,
        libc::REG_R12,
        libc::REG_R13,
        libc::REG_R14,
        libc::REG_R15,
    ];

    pub(super) fn install() {
        // SAFETY: all zeros is a value of that type: no flags, an empty mask, no handler.
        let mut action: libc::sigaction = unsafe { zeroed() };
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: the action is whole, and its handler does nothing that is forbidden in a handler: it allocates
        // nothing, takes no lock and calls nothing but `signal`.
        unsafe { libc::sigaction(libc::SIGFPE, &action, null_mut()) };
    }

    extern "C" fn on_fault(_: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
        // SAFETY: the kernel gives both to a handler with `SA_SIGINFO`, valid until it returns, and to it alone.
        let (info, context) = unsafe { (&*info, &mut *context.cast::<libc::ucontext_t>()) };
        if info.si_code != FPE_INTDIV || !go_on(&mut context.uc_mcontext.gregs) {
            // The instruction is run again, or the signal is sent again, and ends the process.
            // SAFETY: the default action runs no code of this process.
            unsafe { libc::signal(libc::SIGFPE, libc::SIG_DFL) };
        }
    }

    /// Puts the quotient into the registers and goes on behind the instruction; false where it is another fault.
    fn go_on(registers: &mut [i64; 23]) -> bool {
        let general = REGISTERS.map(|it| registers[it as usize] as u64);
        let begin = registers[libc::REG_RIP as usize] as u64;
        // SAFETY: the processor has just read that instruction there, and no more bytes are asked for than it has.
        let code = |at: u64| unsafe { *(begin.wrapping_add(at) as *const u8) };
        let Some(division) = Division::read(begin, &general, code) else { return false };
        let divisor = match division.divisor {
            Ok(register) => general[register],
            // SAFETY: the processor has just read the divisor there. It need not be aligned.
            Err(address) if division.is_wide => unsafe { (address as *const u64).read_unaligned() },
            // SAFETY: the same, of half the width.
            Err(address) => unsafe { u64::from((address as *const u32).read_unaligned()) },
        };
        if !division.overflows(general[RAX], general[RDX], divisor) {
            return false;
        }
        // The quotient is the low half of the dividend, and lies there already.
        registers[libc::REG_RDX as usize] = 0;
        registers[libc::REG_RIP as usize] = begin.wrapping_add(division.length) as i64;
        true
    }

    #[cfg(test)]
    mod tests {
        use std::{arch::asm, hint::black_box};

        use super::*;

        #[test]
        fn the_least_number_by_minus_one_is_itself_without_a_rest() {
            install();
            let (mut quotient, mut rest): (i64, i64);
            let by = black_box([0, -1i64]);
            for round in 0..3 {
                // SAFETY: the instruction changes these two registers alone; what it reads is a live array.
                unsafe {
                    asm!("cqo", "idiv {by}", by = in(reg) by[1], inout("rax") i64::MIN => quotient, out("rdx") rest);
                }
                assert_eq!((quotient, rest), (i64::MIN, 0), "{round}");
                // SAFETY: as above.
                unsafe {
                    asm!("cqo", "idiv qword ptr [{at} + 8*{index}]", at = in(reg) by.as_ptr(), index = in(reg) 1usize,
                         inout("rax") i64::MIN => quotient, out("rdx") rest);
                }
                assert_eq!((quotient, rest), (i64::MIN, 0), "{round}");
            }
            let (mut quotient, mut rest): (i32, i32);
            // SAFETY: as above.
            unsafe {
                asm!("cdq", "idiv {by:e}", by = in(reg) black_box(-1i32), inout("eax") i32::MIN => quotient, out("edx") rest);
            }
            assert_eq!((quotient, rest), (i32::MIN, 0));
        }
    }
}
