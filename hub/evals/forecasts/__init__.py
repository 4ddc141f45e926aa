"""What an evaluation says about the next step: enough examples, power, worth training on."""
