"""The node's side: sets of assignments made true on a runtime, facts reported until they are heard."""
