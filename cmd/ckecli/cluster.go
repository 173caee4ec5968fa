package main

import "github.com/spf13/cobra"

func newClusterCommand(a *app) *cobra.Command {
	return newGroup("cluster", groupWant, "Declare, change and delete clusters",
		newClusterInitCommand(a), newClusterValidateCommand(a), newClusterSchemaCommand(a),
		newClusterSetCommand(a), newClusterImportCommand(a), newClusterApplyCommand(a), newClusterGetCommand(a), newClusterEditCommand(a),
		newClusterListCommand(a), newClusterLogCommand(a), newClusterRollbackCommand(a), newClusterHibernateCommand(a), newClusterResumeCommand(a), newClusterDeleteCommand(a),
		newClusterEvidenceCommand(a), newClusterUnfreezeCommand(a), newClusterReclaimCommand(a))
}
