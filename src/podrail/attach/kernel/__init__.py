"""The kernel's side of an attachment: rtnetlink and namespaces, without a process per call."""
