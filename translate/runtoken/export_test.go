package runtoken

const MaxToken = maxToken

var ErrUnsealable = errUnsealable
