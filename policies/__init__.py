"""The CrossGuard pack: each rule of `triplane.rules` as a Pulumi policy. On disk this is the folder `policies/`."""

try:
    import pulumi_policy as _required
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("the policy pack needs Pulumi's policy SDK: pip install 'triplane[pulumi]'") from error

del _required
