"""The product's own control plane and agents on virtual time, with everything going wrong by a seed."""
