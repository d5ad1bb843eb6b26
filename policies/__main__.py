"""The CrossGuard pack: `pulumi up --policy-pack policies`, or from any project `--policy-pack "$(triplane pack)"`."""

from triplane.policies.pack import serve

serve()
