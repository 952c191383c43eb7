// The etcd server, as the API server of this version expects it: Debian's is too old for its watches.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
