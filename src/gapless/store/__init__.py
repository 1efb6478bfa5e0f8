"""Where bytes are kept: the only package that talks to object storage and local disks."""
