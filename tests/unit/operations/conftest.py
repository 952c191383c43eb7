from small_streams import backend, connected, deployed, eventually, registry_file, runtime, sigkill

__all__ = ["backend", "connected", "deployed", "eventually", "registry_file", "runtime", "sigkill"]  # fixtures
