"""VFs as extended resources: the kubelet's device plugin API, v1beta1.

What is offered and how it is handed out is worked out in pure modules (`candidates`, `selectors`,
`resources`, `health`, `prefer`, `allocate`); `nodes` and `papers` touch the host, `rpc` gRPC,
`kubelet` the kubelet's directories, and `server` keeps all of them together.
"""
