"""2 · Who is next? Waiting jobs in lanes, one per tenant and shape; the order over lanes is this package's whole business."""
