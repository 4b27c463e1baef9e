//! System calls that do nothing and say that all went well.
//!
//! A filter of system calls does that for every way in which a process can make them, whether through
//! the C library or not.

/// Makes system calls with these numbers do nothing, in this process from now on.
pub(crate) fn silence(calls: &[libc::c_long]) {
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let jump = |k: u32| libc::sock_filter {
        code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
        jt: 0,
        jf: 1,
        k,
    };
    // The number of the call is the first word of what the filter is shown.
    let mut program = vec![statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0)];
    for &call in calls {
        program.push(jump(call as u32));
        // An error with number 0: none.
        program.push(statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO));
    }
    program.push(statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW));
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: `filter` names a program and its length; both live until the call returns. Threads
    // that are started later are under the same filter, and there are no others that count: those
    // of the test harness make no such calls.
    let result = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter)
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}
