"""From check results to a verdict: severity, waivers, and the policy that moves rows to quarantine."""
