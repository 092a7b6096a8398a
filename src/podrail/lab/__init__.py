"""The virtual cluster: QEMU nodes with real SR-IOV and Soft-RoCE, and an ibsim fabric."""
